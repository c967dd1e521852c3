import CoreFoundationPorts
import Ports
import RunLoopLocks

/// The Foundation ports of this process: one object for each port while somebody keeps the object.
final class PortObjects: Sendable {
    static let shared = PortObjects()

    private struct Entry {
        let object: Weak<SendRightPort>
        let identity: ObjectIdentifier
        /// The number that `NSMachPort.machPort` returns; 0 until somebody asks for it. The entry has a reference to it.
        var number: UInt32 = 0
    }

    private struct State {
        var entries: [PortID: Entry] = [:]
    }

    private let state = Lock(State())

    /// The object of a right's port, or a new one. Two threads may make one at the same time: then the first counts.
    func object(for right: MachPort.SendRight, orMake make: (MachPort.SendRight) -> SendRightPort) -> SendRightPort {
        existing(right.id) ?? add(make(right))
    }

    func existing(_ id: PortID) -> SendRightPort? { state.withLock { $0.entries[id]?.object.object } }

    /// The object of a port that can receive.
    func existingReceiver(_ id: PortID) -> SendRightPort? { existing(id).flatMap { $0.end == nil ? nil : $0 } }

    /// Adds an object, unless there is one for its port that can receive, or neither can. Returns the one that counts.
    @discardableResult
    func add(_ object: SendRightPort) -> SendRightPort {
        guard let id = object.sendRight?.id else { return object }
        // Released after the lock.
        let (counting, former, number) = state.withLock { state -> (SendRightPort, SendRightPort?, UInt32) in
            let known = state.entries[id]?.object.object
            if let known, known.end != nil || object.end == nil { return (known, nil, 0) }
            let number = state.entries[id]?.number ?? 0
            state.entries[id] = Entry(object: Weak(object), identity: ObjectIdentifier(object))
            return (object, known, number)
        }
        withExtendedLifetime(former) {}
        release(number)
        return counting
    }

    func remove(_ object: SendRightPort) {
        guard let id = object.sendRight?.id else { return }
        let identity = ObjectIdentifier(object)
        let number: UInt32 = state.withLock { state in
            guard state.entries[id]?.identity == identity else { return 0 }
            return state.entries.removeValue(forKey: id)?.number ?? 0
        }
        release(number)
    }

    private func release(_ number: UInt32) { if number != 0 { PortNumbers.shared.change(number, by: -1) } }

    /// The number of an object's port in this process, which ``object(numbered:)`` finds; 0 when there is none. The same as
    /// that of a CFMachPort for the port.
    func number(of object: SendRightPort) -> UInt32 {
        guard let right = object.sendRight else { return 0 }
        let (number, isKnown): (UInt32, Bool) = state.withLock { state in
            guard let entry = state.entries[right.id] else { return (0, true) }
            return (entry.number, entry.number != 0)
        }
        if isKnown { return number }
        let made = PortNumbers.shared.retain(right)
        let isKept = state.withLock { state in
            // Another thread may have been faster, or the object has ended.
            guard state.entries[right.id]?.number == 0 else { return false }
            state.entries[right.id]?.number = made
            return true
        }
        if !isKept { release(made) }
        return isKept ? made : state.withLock { $0.entries[right.id]?.number ?? 0 }
    }

    /// The object of a port with a number; a new one, which can send, when the port has none.
    func object(numbered number: UInt32, orMake make: (MachPort.SendRight) -> SendRightPort) -> SendRightPort? {
        PortNumbers.shared.right(number).map { object(for: $0, orMake: make) }
    }
}

/// Lets an initializer return an object that exists already.
protocol ReplaceableByExisting {}

extension ReplaceableByExisting where Self: SendRightPort {
    /// - Parameter existing: The object of the port. An object of another class is not used.
    init(_ existing: SendRightPort?, orMake make: () -> SendRightPort) {
        if let existing = existing as? Self {
            self = existing
        } else {
            let made = make()
            // An initializer of this kind is not inherited, so what is made has this class.
            let known = PortObjects.shared.add(made) as? Self
            if let known, known !== made { made.yield(to: known) }
            self = known ?? unsafeDowncast(made, to: Self.self)
        }
    }
}
