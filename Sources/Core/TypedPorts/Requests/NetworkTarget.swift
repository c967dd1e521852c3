import Ports
import RunLoopLocks
import RunLoops

/// The servers of a name: on other machines, and perhaps first on this one.
final class NetworkTarget: RequestTarget {
    let route: any RequestRoute
    /// Where the name is looked up first.
    private let nameServer: PortNameServer?
    private let known = Lock<RemoteMessagePort?>(nil)

    init(_ route: any RequestRoute, localFirst nameServer: PortNameServer?) {
        (self.route, self.nameServer) = (route, nameServer)
    }

    var serverName: String? { route.service.name }
    var text: String { route.service.description }

    /// The port of the name on this machine; nil when there is none, or the client does not look for one.
    nonisolated(nonsending) func localPort(before deadline: ContinuousClock.Instant) async throws
        -> RemoteMessagePort?
    {
        guard let nameServer else { return nil }
        if let port = known.withLock({ $0 }), port.isValid { return port }
        do {
            let port = try await RemoteMessagePort(name: serverName ?? "", nameServer: nameServer, before: deadline)
            known.withLock { $0 = port }
            return port
        } catch PortError.nameNotFound {
            return nil
        }
    }

    /// Asks the server of this machine, or else those of others.
    nonisolated(nonsending) func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message {
        let deadline = ContinuousClock.now + timeout
        if let port = try await localPort(before: deadline) {
            do {
                return try await port.request(request.message, timeout: timeout)
            } catch let error as PortError where Self.hasNobodyHandled(error, at: port, mayRepeat) {
                known.withLock { $0 = nil }
            }
        }
        try leaveMachine(request)
        return try await route.request(request.message, timeout: deadline - .now, mayRepeat: mayRepeat)
    }

    /// Whether another server may be asked after an error.
    private static func hasNobodyHandled(_ error: PortError, at port: RemoteMessagePort, _ mayRepeat: Bool) -> Bool {
        guard error.port == port.identity else { return false }
        return switch error {
        case .refused, .isInvalid, .cannotConnect: true
        case .becameInvalid, .connectionLost: mayRepeat
        default: false
        }
    }

    /// - Throws: ``NetworkRequestError`` when the request's type is not for the network.
    func leaveMachine(_ request: TargetRequest) throws(NetworkRequestError) {
        guard request.type is any NetworkRequest.Type else { throw .notMarked(request: request.type.knownName) }
        request.observer?.goes(by: route.networkProtocol)
    }
}

extension NetworkTarget {
    private static let privateMode: ThreadRunLoop.Mode = "swift-ports replies from the network"

    /// Blocks until the reply, while the thread's loop runs in a mode.
    @available(*, noasync)
    func reply(
        to request: TargetRequest, timeout: Duration, mayRepeat: Bool, replyMode: ThreadRunLoop.Mode?
    ) throws -> MachPort.Message {
        try Self.wait(replyMode) { try await self.reply(to: request, timeout: timeout, mayRepeat: mayRepeat) }
    }

    /// Waits for what a task returns, while the thread's loop runs in a mode.
    private static func wait<Value: Sendable>(
        _ mode: ThreadRunLoop.Mode?, _ body: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        let (loop, mode) = (ThreadRunLoop.current, mode ?? privateMode)
        let outcome = Lock<Result<Value, any Error>?>(nil)
        let source = ThreadRunLoop.Source0(label: "reply from the network") {}
        try loop.add(source, forMode: mode)
        defer { source.invalidate() }
        let task = Task {
            let result: Result<Value, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
            source.signal()
            loop.wakeUp()
        }
        // For an error of the loop.
        defer { task.cancel() }
        while true {
            if let outcome = outcome.withLock({ $0 }) { return try outcome.get() }
            _ = try loop.run(mode: mode, before: nil)
        }
    }
}
