import Ports
import RunLoopLocks
import RunLoops

// The seam for transports between machines, on the side of clients. The module NATSPorts has one.

/// A way to the servers of one name on other machines.
package protocol RequestRoute: AnyObject, Sendable {
    /// The service in texts and errors.
    var service: PortIdentity { get }

    /// The protocol of the network, for logs, traces and metrics.
    var networkProtocol: String { get }

    /// Sends a request, and returns the reply. The cancellation of the task cancels the handler.
    /// - Throws: `PortError`, `CancellationError`, or an error of the network.
    nonisolated(nonsending) func request(
        _ message: MachPort.Message, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message

    /// Asks for a stream, and returns when its server has begun.
    /// - Throws: `PortError`, `CancellationError`, or an error of the network.
    nonisolated(nonsending) func stream(
        _ message: MachPort.Message, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource
}

/// The messages of a stream. The release gives the rest of the stream up.
package protocol StreamSource: AnyObject, Sendable {
    /// The next elements; nil after the end.
    /// - Throws: ``StreamTimedOut`` at the deadline; the error that ends the stream; `CancellationError`.
    nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?
    ) async throws -> MachPort.Message?
}

/// No message of a stream has come before the deadline.
package struct StreamTimedOut: Error {
    package init() {}
}

/// The servers of a name: on other machines, and perhaps first on this one.
final class NetworkTarget: Sendable {
    let route: any RequestRoute
    /// Where the name is looked up first.
    private let nameServer: PortNameServer?
    private let known = Lock<RemoteMessagePort?>(nil)

    init(_ route: any RequestRoute, localFirst nameServer: PortNameServer?) {
        (self.route, self.nameServer) = (route, nameServer)
    }

    var name: String { route.service.name ?? "" }

    /// The port of the name on this machine; nil when there is none, or the client does not look for one.
    nonisolated(nonsending) func localPort(before deadline: ContinuousClock.Instant) async throws -> RemoteMessagePort?
    {
        guard let nameServer else { return nil }
        if let port = known.withLock({ $0 }), port.isValid { return port }
        do {
            let port = try await RemoteMessagePort(name: name, nameServer: nameServer, before: deadline)
            known.withLock { $0 = port }
            return port
        } catch PortError.nameNotFound {
            return nil
        }
    }

    /// Asks the server of this machine, or else those of others.
    nonisolated(nonsending) func request<R: NamedRequest>(
        _ message: MachPort.Message, of type: R.Type, _ timeout: Duration, _ mayRepeat: Bool,
        _ observer: (any AskedRequestObserver)?
    ) async throws -> MachPort.Message {
        let deadline = ContinuousClock.now + timeout
        if let port = try await localPort(before: deadline) {
            do {
                return try await port.request(message, timeout: timeout)
            } catch let error as PortError where NetworkTarget.hasNobodyHandled(error, at: port, mayRepeat) {
                known.withLock { $0 = nil }
            }
        }
        try check(type)
        observer?.goes(by: route.networkProtocol)
        return try await route.request(message, timeout: deadline - .now, mayRepeat: mayRepeat)
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

    /// - Throws: ``NetworkRequestError`` when the type is not for the network.
    func check<R: NamedRequest>(_ type: R.Type) throws(NetworkRequestError) {
        if !(type is any NetworkRequest.Type) { throw .notMarked(request: R.knownName) }
    }
}

extension RequestClient {
    /// Makes a client of the servers that a route leads to.
    /// - Parameter nameServer: Where the name is looked up first; nil to ask by the route alone.
    package init(
        _ route: any RequestRoute, localFirst nameServer: PortNameServer? = nil, coder: any MessageCoder
    ) {
        self.init(target: .network(NetworkTarget(route, localFirst: nameServer)), coder: coder)
    }

    private static let privateMode: ThreadRunLoop.Mode = "swift-ports replies from the network"

    /// Waits for what a task returns, while the thread's loop runs in a mode.
    static func wait<Value: Sendable>(
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
