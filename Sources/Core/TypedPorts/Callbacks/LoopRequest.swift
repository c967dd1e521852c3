import Ports
import RunLoops

/// A request or a stream whose reply comes to a handler on a run loop. See
/// ``RequestClient/request(_:timeout:mayRepeat:forMode:onReply:)`` and
/// ``RequestClient/stream(_:timeout:idleTimeout:forMode:onElement:onEnd:)``.
///
/// The loop keeps it until the end; a program keeps it to cancel. Any thread may call all methods.
public final class LoopRequest: Sendable {
    private let isOver: @Sendable () -> Bool
    private let end: @Sendable () -> Void

    fileprivate init(_ delivery: LoopDelivery<some Sendable>) {
        (isOver, end) = ({ delivery.isOver }, { delivery.end() })
    }

    /// Starts work in a task, and calls a handler with its value on the calling thread's loop, once. The end of the loop's
    /// thread cancels the task.
    package static func start<Value: Sendable>(
        label: String, forMode mode: ThreadRunLoop.Mode, _ handler: @escaping (Value) -> Void,
        _ body: @escaping @Sendable () async -> Value
    ) throws(RunLoopError) -> LoopRequest {
        let delivery = try LoopDelivery<Value>(
            in: .current, forMode: mode, label: label, ThreadRunLoop.local(handler))
        delivery.start { await delivery.add(await body(), isLast: true) }
        return LoopRequest(delivery)
    }

    /// True while a handler is still to be called: until the end, or ``cancel()``.
    public var isPending: Bool { !isOver() }

    /// Gives the request up. The server's handler is cancelled, and no handler of the request is called any more. On
    /// another thread than the loop's, a call in progress goes on.
    public func cancel() { end() }
}

private enum StreamEvent<Element: Sendable>: Sendable {
    case element(Element)
    case end((any Error)?)
}

extension RequestClient {
    /// Sends a request without waiting, and calls a handler with the reply or the error on the calling thread's loop,
    /// once. The mode is not empty until then.
    ///
    ///     struct Lookup: PortRequest {
    ///         typealias Reply = String?
    ///         var word: String
    ///     }
    ///
    ///     func ask(_ dictionary: RequestClient) throws {
    ///         try dictionary.request(Lookup(word: "port")) { reply in print(reply) }
    ///     }
    ///
    /// The handler is any closure. It is never called inside this method, and not when the loop's thread ends first, which
    /// gives the request up.
    /// - Parameters:
    ///   - request: The request that the server's handler gets.
    ///   - timeout: The time for the request and the reply, with the wait for a port of the name.
    ///   - mayRepeat: True to send the request again when its server has ended and may have handled it.
    ///   - mode: The mode of the loop in which the handler is called.
    ///   - onReply: Gets the reply, or the error that the form for tasks throws, but no `CancellationError`.
    /// - Returns: The request, to cancel it.
    /// - Throws: `RunLoopError` when the loop's thread ends, or the process is a forked child: nothing was sent.
    @available(*, noasync, message: "a task may go on on another thread; `try await` the reply")
    @discardableResult
    public func request<R: PortRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false,
        forMode mode: ThreadRunLoop.Mode = .default, onReply: @escaping (Result<R.Reply, any Error>) -> Void
    ) throws(RunLoopError) -> LoopRequest {
        try LoopRequest.start(label: "reply to \(R.knownName)", forMode: mode, onReply) {
            do {
                return .success(try await self.request(request, timeout: timeout, mayRepeat: mayRepeat))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Asks for a stream without waiting, and calls handlers with its elements and its end on the calling thread's loop,
    /// in their order. The mode is not empty until the end. A loop that does not run slows the server down.
    ///
    ///     struct Words: PortStreamRequest {
    ///         typealias Element = String
    ///         var prefix: String
    ///     }
    ///
    ///     func printWords(_ dictionary: RequestClient) throws {
    ///         try dictionary.stream(Words(prefix: "p"), onElement: { print($0) }) { error in
    ///             if let error { print("no more words: \(error)") }
    ///         }
    ///     }
    ///
    /// The handlers are any closures. They are never called inside this method, and no more when the loop's thread ends,
    /// which gives the stream up.
    /// - Parameters:
    ///   - request: The request that the server's handler gets.
    ///   - timeout: How long the server may take to begin, with the wait for a port of the name.
    ///   - idleTimeout: The longest wait for an element of a stream that has begun, before it ends with
    ///     ``StreamIdleTimeout``; nil for as long as the server lives.
    ///   - mode: The mode of the loop in which the handlers are called.
    ///   - onElement: Gets each element.
    ///   - onEnd: Called once after all elements, with nil or the error that the form for tasks throws.
    /// - Returns: The request, to cancel it.
    /// - Throws: `RunLoopError` when the loop's thread ends, or the process is a forked child: nothing was sent.
    @available(*, noasync, message: "a task may go on on another thread; `for try await` the elements")
    @discardableResult
    public func stream<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), idleTimeout: Duration? = nil,
        forMode mode: ThreadRunLoop.Mode = .default, onElement: @escaping (R.Element) -> Void,
        onEnd: @escaping ((any Error)?) -> Void
    ) throws(RunLoopError) -> LoopRequest {
        let handler = ThreadRunLoop.local { (event: StreamEvent<R.Element>) in
            switch event {
            case .element(let element): onElement(element)
            case .end(let error): onEnd(error)
            }
        }
        let delivery = try LoopDelivery(in: .current, forMode: mode, label: "elements of \(R.knownName)", handler)
        let elements = stream(request, timeout: timeout, idleTimeout: idleTimeout)
        delivery.start {
            var failure: (any Error)?
            do {
                for try await element in elements { await delivery.add(.element(element)) }
            } catch {
                failure = error
            }
            await delivery.add(.end(failure), isLast: true)
        }
        return LoopRequest(delivery)
    }
}
