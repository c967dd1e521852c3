import Ports
import RunLoopLocks

/// The Foundation ports of this process: one object for each port while somebody keeps the object.
final class PortObjects: Sendable {
    static let shared = PortObjects()

    private struct Entry {
        let object: Weak<SendRightPort>
        let identity: ObjectIdentifier
        /// The number that `NSMachPort.machPort` returns; 0 until somebody asks for it.
        var number: UInt32 = 0
    }

    private struct State {
        var entries: [PortID: Entry] = [:]
        var ports: [UInt32: PortID] = [:]
        /// A Mach port's name looks like that.
        var nextNumber: UInt32 = 0x103

        mutating func forgetNumber(of id: PortID) { if let number = entries[id]?.number { ports[number] = nil } }
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
        let (counting, former) = state.withLock { state -> (SendRightPort, SendRightPort?) in
            let known = state.entries[id]?.object.object
            if let known, known.end != nil || object.end == nil { return (known, nil) }
            state.forgetNumber(of: id)
            state.entries[id] = Entry(object: Weak(object), identity: ObjectIdentifier(object))
            return (object, known)
        }
        withExtendedLifetime(former) {}
        return counting
    }

    func remove(_ object: SendRightPort) {
        guard let id = object.sendRight?.id else { return }
        let identity = ObjectIdentifier(object)
        state.withLock { state in
            guard state.entries[id]?.identity == identity else { return }
            state.forgetNumber(of: id)
            state.entries[id] = nil
        }
    }

    /// The number of an object's port in this process, which ``object(numbered:)`` finds; 0 when there is none.
    func number(of object: SendRightPort) -> UInt32 {
        guard let id = object.sendRight?.id else { return 0 }
        return state.withLock { state in
            guard let entry = state.entries[id] else { return 0 }
            if entry.number != 0 { return entry.number }
            let number = state.nextNumber
            state.nextNumber += 1
            state.entries[id]?.number = number
            state.ports[number] = id
            return number
        }
    }

    func object(numbered number: UInt32) -> SendRightPort? {
        state.withLock { state in state.ports[number].flatMap { state.entries[$0]?.object.object } }
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
