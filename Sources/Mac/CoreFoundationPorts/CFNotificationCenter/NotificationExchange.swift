@preconcurrency import CoreFoundation
import Ports
import RunLoopLocks

/// The way of notifications between the processes of a user.
///
/// A process that observes has a port, which its main loop serves, and registers the port for each name that it observes: in
/// a registry directory of their own, under the name's hash and a number of its own. So a post reads one folder, and asks
/// nobody who does not observe the name.
final class NotificationExchange: @unchecked Sendable {
    // Sound: what changes is behind locks.
    private struct State {
        /// There is one while somebody observes.
        var port: MachPort?
        var source: RunLoopPortSource?
        /// The registered names.
        var registered: Set<String> = []
    }

    private let kind: NotificationCenterBody.Kind
    private let deliver: @Sendable (PostedNotification) -> Void
    private let state = Lock(State())
    private let changing = Lock(())
    /// The observers of other processes, by the names of their ports.
    private let known = Lock<[String: MachPort.SendRight]>([:])
    private let own = String(UInt64.random(in: 0 ... .max), radix: 16)
    private let directory = "\(PortNameServer.shared.path)/notify"
    private let names: PortNameServer

    /// - Parameter deliver: Called on the main loop.
    init(_ kind: NotificationCenterBody.Kind, _ deliver: @escaping @Sendable (PostedNotification) -> Void) {
        (self.kind, self.deliver) = (kind, deliver)
        names = PortNameServer(directory: directory)
    }

    // MARK: Posting

    /// Sends the notification to all processes that observe its name, also to this one. An observer that leaves a thousand
    /// of them unread misses the next.
    func post(_ notification: PostedNotification) {
        let (name, any) = (prefix(String(notification.name)), prefix(nil))
        // Also the names of the dead, until a look-up removes them.
        let observers = FolderTree.names(in: "\(directory)/names").filter { $0.hasPrefix(name) || $0.hasPrefix(any) }
        guard !observers.isEmpty else { return known.withLock { $0.removeAll() } }
        guard let bytes = notification.bytes else {
            return log.error("a notification was not posted: its user info is no property list")
        }
        var reached: Set<Substring> = []
        for observer in observers where reached.insert(observer.drop { $0 != "." }).inserted {
            guard let right = right(observer) else { continue }
            // Its main loop has much to do, or it is gone.
            try? right.send(MachPort.Message(bytes: bytes), before: .now)
        }
    }

    private func right(_ observer: String) -> MachPort.SendRight? {
        if let right = known.withLock({ $0[observer] }), right.isValid { return right }
        let found = try? names.port(forName: observer)
        let former = known.withLock { known in
            if known.count > 1000 { known.removeAll() }
            let former = known[observer]
            known[observer] = found
            return former
        }
        return withExtendedLifetime(former) { found }
    }

    /// How the names of the ports begin that observe a name; nil stands for any name. The hash is FNV-1a.
    private func prefix(_ name: String?) -> String {
        guard let name else { return "\(kind)-any." }
        let hash = name.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return "\(kind)-\(String(hash, radix: 16))."
    }

    // MARK: Observing

    /// Changes what this process observes.
    /// - Parameter change: Returns the observed names. Not called by two threads at the same time.
    func observe(_ change: () -> Set<String?>) {
        nonisolated(unsafe) let change = change
        changing.withLock { _ in
            let wanted = Set(change().map { prefix($0) + own })
            do throws(PortError) { try register(wanted) } catch {
                log.error("notifications of other processes do not arrive: \(error)")
            }
        }
    }

    private func register(_ wanted: Set<String>) throws(PortError) {
        let (former, port) = state.withLock { ($0.registered, $0.port) }
        guard former != wanted else { return }
        let receiver = if let port { port } else { try makePort() }
        for name in wanted.subtracting(former) {
            try names.register(receiver, name: name)
            state.withLock { _ = $0.registered.insert(name) }
        }
        for name in former.subtracting(wanted) {
            state.withLock { _ = $0.registered.remove(name) }
            try names.remove(receiver, name: name)
        }
        guard wanted.isEmpty else { return }
        let ended = state.withLock { state in
            defer { state = State() }
            return state
        }
        ended.source?.invalidate()
        ended.port?.invalidate()
    }

    private func makePort() throws(PortError) -> MachPort {
        // The parent of the directory has to exist.
        _ = try PortNameServer.shared.registration(forName: "notify")
        let port = try MachPort(nameServer: names) { [deliver] message in
            guard case .bytes(let bytes)? = message.components.first, let notification = PostedNotification(bytes)
            else {
                return
            }
            deliver(notification)
        }
        let source = RunLoopPortSource(try PortDescriptor(port), atMost: 64)
        state.withLock { ($0.port, $0.source) = (port, source) }
        source.add(to: CFRunLoopGetMain(), forMode: kCFRunLoopCommonModes)
        CFRunLoopWakeUp(CFRunLoopGetMain())
        return port
    }
}
