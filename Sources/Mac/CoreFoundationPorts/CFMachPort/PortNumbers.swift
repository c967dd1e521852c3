import Ports
import RunLoopLocks

/// The numbers by which this process names ports, as a Mach task names its rights. A number holds references to the right
/// to send, and the right to receive, if any. Without both it is free.
package final class PortNumbers: Sendable {
    package static let shared = PortNumbers()

    private struct Entry {
        let right: MachPort.SendRight
        var receiver: MachPort?
        var sendReferences = 0
    }

    private struct State {
        var entries: [UInt32: Entry] = [:]
        var numbers: [PortID: UInt32] = [:]
        /// A Mach port's name looks like that. Below are the numbers of the task and of the name server.
        var next: UInt32 = 0x1003

        mutating func number(for right: MachPort.SendRight) -> UInt32 {
            if let known = numbers[right.id] { return known }
            while next == 0 || entries[next] != nil { next &+= 1 }
            defer { next &+= 1 }
            numbers[right.id] = next
            entries[next] = Entry(right: right)
            return next
        }

        /// Forgets a number that holds nothing. Returns its entry, which is released after the lock.
        mutating func prune(_ number: UInt32) -> Entry? {
            guard let entry = entries[number], entry.receiver == nil, entry.sendReferences <= 0 else { return nil }
            numbers[entry.right.id] = nil
            return entries.removeValue(forKey: number)
        }
    }

    private let state = Lock(State())

    /// The number of a port, with one reference more to the right to send.
    package func retain(_ right: MachPort.SendRight) -> UInt32 {
        state.withLock { state in
            let number = state.number(for: right)
            state.entries[number]?.sendReferences += 1
            return number
        }
    }

    /// The number of a port that can receive, without a reference to the right to send.
    package func hold(_ receiver: MachPort) -> UInt32 {
        state.withLock { state in
            let number = state.number(for: receiver.sendRight)
            state.entries[number]?.receiver = receiver
            return number
        }
    }

    /// The right to send to the port of a number, if anything holds the number.
    package func right(_ number: UInt32) -> MachPort.SendRight? { state.withLock { $0.entries[number]?.right } }

    /// The port of a number that ``hold(_:)`` has returned.
    func receiver(_ number: UInt32) -> MachPort? { state.withLock { $0.entries[number]?.receiver } }

    /// Adds references to the right to send, or takes them back.
    /// - Returns: False when there is no such number, or it has not as many.
    @discardableResult
    package func change(_ number: UInt32, by delta: Int) -> Bool {
        let (isDone, former): (Bool, Entry?) = state.withLock { state in
            guard let count = state.entries[number]?.sendReferences, count + delta >= 0 else { return (false, nil) }
            state.entries[number]?.sendReferences = count + delta
            return (true, state.prune(number))
        }
        withExtendedLifetime(former) {}
        return isDone
    }

    /// Takes the right to receive from a number.
    func takeReceiver(_ number: UInt32) -> MachPort? {
        let (receiver, former): (MachPort?, Entry?) = state.withLock { state in
            let receiver = state.entries[number]?.receiver
            state.entries[number]?.receiver = nil
            return (receiver, state.prune(number))
        }
        return withExtendedLifetime(former) { receiver }
    }

    /// Takes all references to the right to send.
    func removeReferences(_ number: UInt32) {
        let former: Entry? = state.withLock { state in
            state.entries[number]?.sendReferences = 0
            return state.prune(number)
        }
        withExtendedLifetime(former) {}
    }
}
