@testable import Ports

/// A message as its sender knows it.
struct SentMessage {
    enum Way { case ring, ownQueue, zeroMQ }

    let way: Way
    let size: Int
    /// The port to which the sender's channel led, and its process. Both may have ended.
    let home: PortID
    let process: Process?
    /// When the call returned.
    let time = machine.now
    /// Whether the message is in the receiver's memory.
    let isKept: Bool
}

/// The way of a lent port back to its lender, and what it may lose of one line. Each exception is a sentence of
/// MovingPorts.md.
struct LoanReturn {
    /// The messages that were sent and not taken.
    private let numbers: Range<UInt32>
    private let borrowers: [Process]
    /// The port of the last borrower, which has ended; nil when only claimants have died.
    private let home: PortID?
    /// When the first of them began to claim the port. What was sent before has come with it.
    private let since: UInt64
    private let passedOn: UInt32
    /// The size from which on messages may have memory of their own.
    private let largeSize: Int

    init(
        _ numbers: Range<UInt32>, from borrowers: [Process], at home: PortID?, since: UInt64, passedOn: UInt32
    ) {
        (self.numbers, self.borrowers, self.home) = (numbers, borrowers, home)
        (self.since, self.passedOn) = (since, passedOn)
        // A borrower makes smaller rings under a limit, and when it gets no memory. The header counts, too.
        let isLimited = borrowers.contains { $0.memoryLimit < .max || $0.fileLimit < .max }
        largeSize = (isLimited || machine.faults.refusedMemory > 0 ? 256 << 10 : 16 << 20) - 1_000
    }

    func mayLose(_ number: UInt32, _ message: SentMessage, of sender: Process) -> Bool {
        // “Not all comes back: messages by ZeroMQ, also those that are sent before their senders have heard that the service,
        // or the port there, has ended; […]
        if message.way == .zeroMQ {
            if message.home == home { return true }
            if let process = message.process, process.isDead, borrowers.contains(where: { $0 === process }) {
                return true
            }
        }
        guard numbers.contains(number) else { return false }
        // “The supervisor gets it back at the end of the last one, but for the messages and requests that waited at the
        // service then.”
        if number <= passedOn { return true }
        guard message.time >= since else { return false }
        switch message.way {
        case .zeroMQ: return true
        // messages of the service's own process;
        case .ownQueue where borrowers.contains(where: { $0 === sender }): return true
        // messages of 16 MiB and more that go in memory of their own”.
        case .ownQueue, .ring: return message.size >= largeSize
        }
    }

    /// “Not all comes back: […] the descriptors of messages, in whose place is descriptorLost.”
    func mayLoseDescriptor(of number: UInt32) -> Bool { numbers.contains(number) }
}
