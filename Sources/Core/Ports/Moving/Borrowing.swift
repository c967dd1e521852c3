import Glibc
import RunLoops

/// The lender of a port, as the borrower knows it: where the port goes back to, and the port that takes the rings.
final class PortBorrowing: PortLender {
    private let standby: PortID
    private let desk: MachPort.SendRight

    /// - Parameters:
    ///   - standby: The port at the lender that takes the place of the lent one.
    ///   - desk: The port of the lender that takes the rings.
    init(_ standby: PortID, _ desk: MachPort.SendRight) { (self.standby, self.desk) = (standby, desk) }

    var isThere: Bool { desk.isValid }

    /// Learns the lender's end.
    func watch() { desk.channel.watch() }

    /// The time in which a lender has to take a ring. A sender that waits for the ring goes on by ZeroMQ then.
    private static let patience = Duration.seconds(2)

    func keep(
        _ memory: OwnedDescriptor, of peer: Incarnation, _ sender: SenderCredentials, at home: PortID,
        then: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        do throws(PortError) {
            let copy = try MessageDescriptor(duplicating: memory.number)
            let message = MachPort.Message(ring: copy, of: peer, sender, at: home)
            try desk.post(message, within: Self.patience) { [self] error in
                // By ZeroMQ the message could come after the news of this process's end.
                then(error == nil && desk.channel.hasRing || !isThere)
            }
        } catch {
            then(!isThere)
        }
    }

    fileprivate var components: [MachPort.Message.Component] { [.bytes(Array(standby.file.utf8)), .port(desk)] }
}

/// The terms of a loan, for the borrower. They follow the port in the first message of the move.
struct LoanTerms {
    let lender: PortBorrowing
    /// The memory in which the lender learns how many of the messages that came with the port were taken. Nil from a borrower
    /// that passes the port on.
    var taken: MessageDescriptor?
    /// How the borrower before has ended, whose askers may not know that yet.
    var reason: String?

    init(_ lender: PortBorrowing, taken: MessageDescriptor? = nil, reason: String? = nil) {
        (self.lender, self.taken, self.reason) = (lender, taken, reason)
    }

    /// - Returns: Nil when the port is not lent.
    init?(_ message: MachPort.Message) {
        guard let standby = message.text(ofComponent: 1).flatMap({ PortID(file: $0) }),
            let desk = message.port(ofComponent: 2)
        else { return nil }
        lender = PortBorrowing(standby, desk)
        (taken, reason) = (message.descriptor(ofComponent: 3), message.text(ofComponent: 4))
    }

    var components: [MachPort.Message.Component] {
        guard let taken else { return lender.components }
        return lender.components + [.descriptor(taken)] + (reason.map { [.bytes(Array($0.utf8))] } ?? [])
    }
}

// A ring in a message to the lender.
extension MachPort.Message {
    init(ring memory: MessageDescriptor, of peer: Incarnation, _ sender: SenderCredentials, at home: PortID) {
        let names = ["\(peer)", home.file].map { Component.bytes(Array($0.utf8)) }
        self.init(.ring, [Self.bytes(of: sender.numbers)] + names + [.descriptor(memory)])
    }

    /// The ring that a borrower has made; nil when this is none, or its memory has not come.
    var ring: LentRing? {
        let facts = numbers
        guard step == .ring, facts.count == 2, let peer = text(ofComponent: 1).flatMap({ Incarnation($0) }),
            let home = text(ofComponent: 2).flatMap({ PortID(file: $0) }),
            let memory = descriptor(ofComponent: 3), let number = try? memory.take()
        else { return nil }
        return LentRing(
            memory: OwnedDescriptor(number), peer: peer, sender: SenderCredentials(facts[0], facts[1]), home: home)
    }
}

/// A ring to a lent port, as the lender has it.
struct LentRing {
    let memory: OwnedDescriptor
    let peer: Incarnation
    let sender: SenderCredentials
    /// The port at the borrower that has made the ring.
    let home: PortID

    /// The ring, when its receiver is gone. Nothing more is sent by it.
    /// - Parameter deadline: The end of the attempts to read it. Perhaps there is no memory for the moment.
    func left(_ messageLimit: Int, queueLimit: Int, until deadline: MonotonicInstant = .distantPast) -> LeftRing? {
        while true {
            let ring = LeftRing(memory, of: sender, queueLimit: queueLimit, messageLimit: messageLimit)
            if ring != nil || deadline.hasPassed { return ring }
            usleep(10_000)
        }
    }

    /// Whether its receiver has ended the ring, and has taken everything.
    var isOver: Bool {
        RingMemory.withWords(of: memory.number) { $0.isOver } ?? false
    }
}
