import RunLoops
import Synchronization

/// The requests of this process that wait for their replies, and the ports that the replies come to: for each registry
/// directory, since whoever can be asked in one can answer there, one that asking threads serve themselves, and one
/// that the housekeeping thread serves for tasks.
final class PendingReplies: Sendable {
    private struct Replies: Hashable {
        let path: String
        let isForTasks: Bool
    }

    private struct State {
        var ports: [Replies: MachPort] = [:]
        var pending = RequestTable<PendingReply>()
        var lastRequest: UInt64 = 0
        var late = 0
    }

    private let state = Mutex(State())
    /// Makes numbers that no other process can guess: whoever knows one can answer that request.
    private let secret = (UInt64.random(in: 0 ... .max), UInt64.random(in: 0 ... .max))

    /// How many replies came when nobody waited for them any more.
    var lateCount: Int { state.withLock { $0.late } }

    /// How many requests to a port wait for their replies.
    func pendingCount(to port: PortID) -> Int {
        state.withLock { $0.pending.count(to: port) }
    }

    /// The port for replies from where the channel leads.
    func port(for channel: SendChannel, isForTasks: Bool = false) throws(PortError) -> MachPort {
        let path = channel.isLocal ? PortNameServer.shared.path : channel.path
        let key = Replies(path: path, isForTasks: isForTasks)
        if let port = state.withLock({ $0.ports[key] }) { return port }
        let made = try MachPort(
            nameServer: PortNameServer(directory: path),
            handlers: .init { PortProcess.current.replies.arrived($0) })
        // Before others find it.
        if isForTasks { try made.schedule(in: PortProcess.current.housekeepingLoop()) }
        let port = state.withLock { state in
            if let port = state.ports[key] { return port }
            state.ports[key] = made
            return made
        }
        // Its loop would keep it.
        if port !== made { made.invalidate() }
        return port
    }

    func add(_ pending: PendingReply) -> UInt64 {
        state.withLock { state in
            var number: UInt64
            repeat {
                state.lastRequest += 1
                number = unguessable(state.lastRequest)
            } while state.pending[number] != nil
            state.pending.add(pending, number)
            return number
        }
    }

    private func unguessable(_ number: UInt64) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(secret.0)
        hasher.combine(secret.1)
        hasher.combine(number)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    func remove(_ request: UInt64) { _ = state.withLock { $0.pending.remove(request) } }

    private func arrived(_ frame: ReceivedFrame) {
        guard frame.header.kind == .reply else { return frame.refuse() }
        let pending = state.withLock { state in
            let pending = state.pending.remove(frame.header.request)
            if pending == nil { state.late += 1 }
            return pending
        }
        pending?.finish(.success(frame))
    }

    /// The server has let the request go. Only the process that was asked can say so.
    func wasRefused(_ request: UInt64, by incarnation: Incarnation) {
        let pending = state.withLock { state in
            state.pending[request]?.port.incarnation == incarnation ? state.pending.remove(request) : nil
        }
        pending?.finish(.failure(.unanswered(port: pending?.port.description ?? "")))
    }

    /// A reply that was sent before the end comes another way than the news of it, and may take so much longer.
    private static let patience = Duration.milliseconds(50)

    func portBecameInvalid(_ port: PortID) {
        guard pendingCount(to: port) > 0 else { return }
        guard let loop = try? PortProcess.current.housekeepingLoop() else { return fail(port) }
        loop.add(ThreadRunLoop.Timer(after: Self.patience) { _ in self.fail(port) })
    }

    private func fail(_ port: PortID) {
        let gone = state.withLock { $0.pending.removeAll(to: port) }
        for pending in gone { pending.finish(.failure(.becameInvalid(port: pending.port.description))) }
    }
}

/// One request that waits. The asker is told when it has ended, one way or another.
final class PendingReply: Request {
    let port: PortID
    private let tell: @Sendable () -> Void
    private let outcome = Mutex<Result<ReceivedFrame, PortError>?>(nil)

    init(to port: PortID, tell: @escaping @Sendable () -> Void) {
        self.port = port
        self.tell = tell
    }

    var result: Result<ReceivedFrame, PortError>? { outcome.withLock { $0 } }

    func finish(_ result: Result<ReceivedFrame, PortError>) {
        outcome.withLock { $0 = $0 ?? result }
        tell()
    }
}
