import RunLoops

// These forms never compile. The error says which form to write.

extension RequestClient {
    /// A stream has many elements: iterate ``stream(_:timeout:idleTimeout:)``.
    @available(
        *, unavailable,
        message:
            "the reply to a PortStreamRequest is many elements: write `for try await element in client.stream(request)`"
    )
    public nonisolated(nonsending) func request<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false
    ) async throws -> R.Element { fatalError("unavailable") }

    /// A stream has many elements: iterate ``stream(_:timeout:idleTimeout:)``.
    @available(
        *, unavailable,
        message: "write `for try await element in client.stream(request)`"
    )
    @_disfavoredOverload
    public func request<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10)
    ) -> ReplyStream<R> { fatalError("unavailable") }

    /// A stream has many elements: iterate ``stream(_:timeout:idleTimeout:)``.
    @available(
        *, unavailable,
        message:
            "the reply to a PortStreamRequest is many elements: write `try client.stream(request, onElement: { … }, onEnd: { … })`, or `for try await element in client.stream(request)` in a task"
    )
    public func request<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false, replyMode: ThreadRunLoop.Mode? = nil
    ) throws -> R.Element { fatalError("unavailable") }

    /// A stream has many elements: take them by ``stream(_:timeout:idleTimeout:forMode:onElement:onEnd:)``.
    @available(
        *, unavailable,
        message:
            "the reply to a PortStreamRequest is many elements: write `try client.stream(request, onElement: { … }, onEnd: { … })`"
    )
    @discardableResult
    public func request<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false,
        forMode mode: ThreadRunLoop.Mode = .default, onReply: @escaping (Result<R.Element, any Error>) -> Void
    ) throws(RunLoopError) -> LoopRequest { fatalError("unavailable") }

    /// A request that is no stream has one reply.
    @available(
        *, unavailable,
        message: "a PortRequest has one reply: write `try await client.request(request)`"
    )
    public func stream<R: PortRequest>(
        _ request: R, timeout: Duration = .seconds(10), idleTimeout: Duration? = nil
    ) -> AsyncThrowingStream<R.Reply, any Error> { fatalError("unavailable") }

    /// A request that is no stream has one reply.
    @available(
        *, unavailable,
        message: "a PortRequest has one reply: write `try client.request(request) { reply in … }`"
    )
    @discardableResult
    public func stream<R: PortRequest>(
        _ request: R, timeout: Duration = .seconds(10), idleTimeout: Duration? = nil,
        forMode mode: ThreadRunLoop.Mode = .default, onElement: @escaping (R.Reply) -> Void,
        onEnd: @escaping ((any Error)?) -> Void
    ) throws(RunLoopError) -> LoopRequest { fatalError("unavailable") }
}

extension RequestServer {
    /// A stream has many elements: the handler returns a sequence of them.
    @available(
        *, unavailable,
        message: "the reply to a PortStreamRequest is many elements: return an AsyncSequence, such as an AsyncStream"
    )
    @_disfavoredOverload
    public func handle<R: PortStreamRequest>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R) async throws -> R.Element
    ) { fatalError("unavailable") }
}
