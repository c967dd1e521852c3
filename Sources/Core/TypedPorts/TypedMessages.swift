import Ports

// Values as messages of plain ports.

extension MachPort.SendRight {
    /// Encodes a value, and sends it in a message. The task is suspended while the port's queue is full.
    /// - Throws: `PortError`, `CancellationError`, `EncodingError`.
    public nonisolated(nonsending) func send(
        _ value: some Encodable, id: UInt32 = 0, coder: any MessageCoder = CBORCoder(),
        replyPort: MachPort.SendRight? = nil, before deadline: ContinuousClock.Instant? = nil
    ) async throws {
        try await send(try coder.message(id: id, value, replyPort: replyPort), before: deadline)
    }

    /// Encodes a value, and sends it in a message. The call blocks while the port's queue is full.
    /// - Throws: `PortError`, `EncodingError`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func send(
        _ value: some Encodable, id: UInt32 = 0, coder: any MessageCoder = CBORCoder(),
        replyPort: MachPort.SendRight? = nil, before deadline: ContinuousClock.Instant? = nil
    ) throws {
        try send(try coder.message(id: id, value, replyPort: replyPort), before: deadline)
    }
}

extension MachPort.Message {
    /// The value that the message was made of.
    /// - Throws: `DecodingError`.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, with coder: any MessageCoder = CBORCoder()
    ) throws -> Value {
        try coder.decode(type, from: self)
    }
}
