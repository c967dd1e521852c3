import Ports
import RunLoops

/// Where the requests of a client go.
///
/// Ports are asked without a protocol in between, which would cost each request. Servers on other machines are asked by a
/// ``RequestRoute``.
enum RequestTarget: Sendable {
    /// The port that has the name at the time of each request.
    case named(NamedMessagePort)
    case port(RemoteMessagePort)
    case network(NetworkTarget)

    /// The server's name; nil for a port without one.
    var name: String? {
        switch self {
        case .named(let named): named.name
        case .port(let port): port.name
        case .network(let network): network.name
        }
    }

    /// The server in texts.
    var text: String {
        switch self {
        case .named(let named): named.name
        case .port(let port): port.name ?? port.sendRight.description
        case .network(let network): network.route.service.description
        }
    }

    nonisolated(nonsending) func request<R: NamedRequest>(
        _ message: MachPort.Message, of type: R.Type, _ timeout: Duration, _ mayRepeat: Bool,
        _ observer: (any AskedRequestObserver)?
    ) async throws -> MachPort.Message {
        switch self {
        case .named(let named): try await named.request(message, timeout: timeout, mayRepeat: mayRepeat)
        case .port(let port): try await port.request(message, timeout: timeout)
        case .network(let network): try await network.request(message, of: type, timeout, mayRepeat, observer)
        }
    }

    /// Blocks until the reply, while the thread's loop runs in a mode.
    @available(*, noasync)
    func request<R: NamedRequest>(
        _ message: MachPort.Message, of type: R.Type, _ timeout: Duration, _ mayRepeat: Bool,
        _ observer: (any AskedRequestObserver)?, replyMode: ThreadRunLoop.Mode?
    ) throws -> MachPort.Message {
        switch self {
        case .named(let named):
            try named.request(message, timeout: timeout, mayRepeat: mayRepeat, replyMode: replyMode)
        case .port(let port): try port.request(message, timeout: timeout, replyMode: replyMode)
        case .network(let network):
            try network.request(message, of: type, timeout, mayRepeat, observer, replyMode: replyMode)
        }
    }
}
