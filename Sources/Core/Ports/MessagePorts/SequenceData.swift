// The calls that take data, for sequences of bytes other than arrays, such as Foundation's `Data`.

extension RemoteMessagePort {
    /// Sends data, and blocks while the port has no room, at most for the timeout.
    /// - Throws: ``PortError``, as the form for an array.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func send(id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)) throws(PortError) {
        try send(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }

    /// Sends data, and suspends the task while the port has no room, at most for the timeout.
    /// - Throws: ``PortError``, or `CancellationError`, as the form for an array.
    public nonisolated(nonsending) func send(
        id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)
    ) async throws {
        try await send(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }

    /// Sends a request with data, and waits for the reply, both within the timeout.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``, as the form for an array.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request(
        id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)
    ) throws(PortError) -> [UInt8]? {
        try request(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }

    /// Sends a request with data, and suspends the task until the reply comes, both within the timeout.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``, or `CancellationError`, as the form for an array.
    public nonisolated(nonsending) func request(
        id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)
    ) async throws -> [UInt8]? {
        try await request(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }
}

extension ReplyRight {
    /// Sends a reply with data, now or when the asker has room. The call does not wait.
    /// - Throws: ``PortError``, as the form for an array.
    public func reply(with data: some Sequence<UInt8>) throws(PortError) {
        try reply(with: Array(data) as [UInt8]?)
    }
}
