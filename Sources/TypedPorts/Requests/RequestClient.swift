import Ports
import RunLoops

/// Sends requests to a ``RequestServer``, from any task or thread.
///
///     struct Lookup: PortRequest {
///         typealias Reply = String?
///         var word: String
///     }
///
///     let dictionary = RequestClient("com.example.dictionary")
///     print(try await dictionary.request(Lookup(word: "port")) ?? "nobody knows it")
///
/// A client of a name outlives its server: it waits for a port of the name, and finds the next after a restart.
public struct RequestClient: Sendable {
    enum Target {
        case named(NamedMessagePort)
        case port(RemoteMessagePort)
        case network(NetworkTarget)
    }

    private let target: Target
    let coder: any MessageCoder
    package var observers = RequestObservers()

    /// Makes a client of the port that has the name at the time of each request.
    public init(_ name: String, nameServer: PortNameServer = .shared, coder: any MessageCoder = CBORCoder()) {
        target = .named(NamedMessagePort(name, nameServer: nameServer))
        self.coder = coder
    }

    /// Makes a client of one port.
    public init(_ port: RemoteMessagePort, coder: any MessageCoder = CBORCoder()) {
        target = .port(port)
        self.coder = coder
    }

    /// Makes a client of the port that a right sends to. Such a right comes in a message, or from a worker's check-in.
    public init(_ right: MachPort.SendRight, coder: any MessageCoder = CBORCoder()) {
        self.init(RemoteMessagePort(right), coder: coder)
    }

    init(target: Target, coder: any MessageCoder) { (self.target, self.coder) = (target, coder) }

    /// Sends a request, and returns the reply. The timeout is for both, and includes the wait for a port of the name.
    /// A client of a name sends the request again if certainly no server has handled it. With `mayRepeat`, it also does
    /// so when the server has ended and may have handled the request.
    /// - Throws: The request's `Failure`; `PortError`: `failed` for another error of the handler, `refused`,
    ///   `receiveTimedOut`…; `CancellationError`; `EncodingError`, `DecodingError`.
    public nonisolated(nonsending) func request<R: PortRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false
    ) async throws -> R.Reply {
        let asked = try AskedRequest(request, of: self)
        do {
            return try asked.value(of: await ask(R.self, asked.message, timeout, mayRepeat, asked.observer))
        } catch {
            throw asked.failure(error)
        }
    }

    /// Sends a request, and blocks the thread until the reply. Meanwhile the thread's loop runs in the reply mode, and
    /// serves the other items of that mode; nil stands for a mode without other items.
    /// - Throws: The request's `Failure`; `PortError`: `failed` for another error of the handler, `refused`,
    ///   `receiveTimedOut`…; `EncodingError`, `DecodingError`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request<R: PortRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false,
        replyMode: ThreadRunLoop.Mode? = nil
    ) throws -> R.Reply {
        let asked = try AskedRequest(request, of: self)
        do {
            let reply =
                switch target {
                case .named(let named):
                    try named.request(asked.message, timeout: timeout, mayRepeat: mayRepeat, replyMode: replyMode)
                case .port(let port): try port.request(asked.message, timeout: timeout, replyMode: replyMode)
                case .network:
                    try Self.wait(replyMode) {
                        try await ask(R.self, asked.message, timeout, mayRepeat, asked.observer)
                    }
                }
            return try asked.value(of: reply)
        } catch {
            throw asked.failure(error)
        }
    }

    nonisolated(nonsending) func ask<R: NamedRequest>(
        _ type: R.Type, _ message: MachPort.Message, _ timeout: Duration, _ mayRepeat: Bool,
        _ observer: (any AskedRequestObserver)? = nil
    ) async throws -> MachPort.Message {
        switch target {
        case .named(let named): try await named.request(message, timeout: timeout, mayRepeat: mayRepeat)
        case .port(let port): try await port.request(message, timeout: timeout)
        case .network(let network): try await network.request(message, of: type, timeout, mayRepeat, observer)
        }
    }

    /// The name of the server's port, if it has one, and the port for a text.
    var portName: (name: String?, text: String) {
        switch target {
        case .named(let named): (named.name, named.name)
        case .port(let port): (port.name, port.name ?? port.sendRight.description)
        case .network(let network): (network.name, network.route.service.description)
        }
    }

    /// The port that is asked now; nil when other machines are asked.
    nonisolated(nonsending) func port(before deadline: ContinuousClock.Instant) async throws -> RemoteMessagePort? {
        switch target {
        case .named(let named): try await named.port(before: deadline)
        case .port(let port): port
        case .network(let network): try await network.localPort(before: deadline)
        }
    }

    /// The servers on other machines; nil for a client of ports alone.
    var network: NetworkTarget? { if case .network(let network) = target { network } else { nil } }

    /// The error that a request throws for an error of the port.
    func failure<R: NamedRequest>(of type: R.Type, _ error: any Error) -> any Error {
        switch error {
        case PortError.failed(let port, var failure) where failure.isUnknownRequest:
            let known = String(decoding: failure.data ?? [], as: UTF8.self)
            failure.text = "the server knows no \(R.knownName): it \(known); is it older than its client?"
            return PortError.failed(port: port, failure)
        case PortError.failed(_, let failure): return failure.decoded(as: R.Failure.self, coder) ?? error
        case let error as DecodingError: return error.of("the reply of \(portName.text) to \(R.knownName)")
        default: return error
        }
    }
}
