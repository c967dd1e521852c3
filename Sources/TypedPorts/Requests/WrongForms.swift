import RunLoops

// These forms never compile. The error says which form to write.

extension RequestClient {
    /// A stream has many elements: iterate ``stream(_:timeout:)``.
    @available(
        *, unavailable,
        message:
            "the reply to a PortStreamRequest is many elements: write `for try await element in client.stream(request)`"
    )
    public nonisolated(nonsending) func request<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false
    ) async throws -> R.Element { fatalError("unavailable") }

    /// A stream has many elements: iterate ``stream(_:timeout:)``.
    @available(
        *, unavailable,
        message:
            "the reply to a PortStreamRequest is many elements: write `for try await element in client.stream(request)`"
    )
    public func request<R: PortStreamRequest>(
        _ request: R, timeout: Duration = .seconds(10), mayRepeat: Bool = false, replyMode: ThreadRunLoop.Mode? = nil
    ) throws -> R.Element { fatalError("unavailable") }

    /// A request that is no stream has one reply.
    @available(
        *, unavailable,
        message: "a PortRequest has one reply: write `try await client.request(request)`"
    )
    public func stream<R: PortRequest>(
        _ request: R, timeout: Duration = .seconds(10)
    ) -> AsyncThrowingStream<R.Reply, any Error> { fatalError("unavailable") }
}
