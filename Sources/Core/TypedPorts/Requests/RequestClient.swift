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
    let target: any RequestTarget
    let coder: any MessageCoder
    package var observers = RequestObservers()

    /// Makes a client of the port that has the name at the time of each request.
    public init(_ name: String, nameServer: PortNameServer = .shared, coder: any MessageCoder = CBORCoder()) {
        target = NamedMessagePort(name, nameServer: nameServer)
        self.coder = coder
    }

    /// Makes a client of one port.
    public init(_ port: RemoteMessagePort, coder: any MessageCoder = CBORCoder()) {
        target = port
        self.coder = coder
    }

    /// Makes a client of the port that a right sends to. Such a right comes in a message, or from a worker's check-in.
    public init(_ right: MachPort.SendRight, coder: any MessageCoder = CBORCoder()) {
        self.init(RemoteMessagePort(right), coder: coder)
    }

    /// Makes a client of the servers that a route leads to.
    /// - Parameter nameServer: Where the name is looked up first; nil to ask by the route alone.
    package init(_ route: any RequestRoute, localFirst nameServer: PortNameServer? = nil, coder: any MessageCoder) {
        target = NetworkTarget(route, localFirst: nameServer)
        self.coder = coder
    }

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
            return try asked.value(
                of: await target.reply(to: asked.request, timeout: timeout, mayRepeat: mayRepeat))
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
            return try asked.value(
                of: target.reply(to: asked.request, timeout: timeout, mayRepeat: mayRepeat, replyMode: replyMode))
        } catch {
            throw asked.failure(error)
        }
    }

    /// The error that a request throws for an error of the port.
    func failure<R: NamedRequest>(of type: R.Type, _ error: any Error) -> any Error {
        switch error {
        case PortError.failed(let port, var failure) where failure.isUnknownRequest:
            let known = String(decoding: failure.data ?? [], as: UTF8.self)
            failure.text = "the server knows no \(R.knownName): it \(known); is it older than its client?"
            return PortError.failed(port: port, failure)
        case PortError.failed(_, let failure): return failure.decoded(as: R.Failure.self, coder) ?? error
        case let error as DecodingError: return error.of("the reply of \(target.text) to \(R.knownName)")
        default: return error
        }
    }
}
