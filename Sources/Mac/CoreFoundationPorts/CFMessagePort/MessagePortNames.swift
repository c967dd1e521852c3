@preconcurrency import CoreFoundation
import Ports
import RunLoopLocks
import RunLoops

extension String {
    /// The name of a CFMessagePort. As on macOS, a name that is too long is cut after a whole character.
    init(portName name: CFString) {
        self.init(name)
        while utf8.count > PortNameServer.longestName { unicodeScalars.removeLast() }
    }
}

/// The valid CFMessagePorts of one kind by their names. For one name, the functions return one instance.
final class MessagePortNames: Sendable {
    static let local = MessagePortNames()
    static let remote = MessagePortNames()

    private let bodies = Lock<[String: MessagePortBody]>([:])

    /// The instance that has a name.
    func existing(_ name: String) -> CFMessagePort? {
        guard let body = bodies.withLock({ $0[name] }) else { return nil }
        if let instance = body.instance { return body.isValid(instance) ? instance : nil }
        // Another thread releases the last reference, and the name is not free yet.
        _ = body.hasEnded.wait(until: .now + .seconds(1))
        return nil
    }

    /// Adds a port, unless the name has one, which is returned.
    @discardableResult
    func insert(_ name: String, _ body: MessagePortBody) -> CFMessagePort? {
        if let existing = existing(name) { return existing }
        // Released after the lock.
        var former: MessagePortBody?
        defer { withExtendedLifetime(former) {} }
        return bodies.withLock { bodies in
            // A port that another thread invalidates stays here for a moment more.
            if let present = bodies[name], let instance = present.instance, present.state.withLock({ $0.isValid }) {
                return instance
            }
            former = bodies.updateValue(body, forKey: name)
            return nil
        }
    }

    func remove(_ name: CFString?, _ body: MessagePortBody) {
        guard let name = name.map(String.init(_:)) else { return }
        // Released after the lock.
        let former = bodies.withLock { $0[name] === body ? $0.removeValue(forKey: name) : nil }
        withExtendedLifetime(former) {}
    }
}
