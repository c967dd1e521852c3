// The calls that take data, for other sequences of bytes than arrays, such as Foundation's `Data`.

extension RemoteMessagePort {
    /// Sends data, otherwise as `send(id:_:timeout:)` for an array.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func send(id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)) throws(PortError) {
        try send(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }

    /// Sends data, otherwise as `send(id:_:timeout:)` for an array, suspending the task.
    public nonisolated(nonsending) func send(
        id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)
    ) async throws {
        try await send(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }

    /// Sends a request with data, otherwise as `request(id:_:timeout:replyMode:)` for an array.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request(
        id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)
    ) throws(PortError) -> [UInt8]? {
        try request(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }

    /// Sends a request with data, otherwise as `request(id:_:timeout:)` for an array, suspending the task.
    public nonisolated(nonsending) func request(
        id: UInt32, _ data: some Sequence<UInt8>, timeout: Duration = .seconds(10)
    ) async throws -> [UInt8]? {
        try await request(id: id, Array(data) as [UInt8]?, timeout: timeout)
    }
}

extension ReplyRight {
    /// Sends a reply with data, otherwise as `reply(with:)` for an array.
    public func reply(with data: some Sequence<UInt8>) throws(PortError) {
        try reply(with: Array(data) as [UInt8]?)
    }
}
