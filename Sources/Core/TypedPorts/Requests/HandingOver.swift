import Ports

// A server's port goes to another process, such as the next version of the same program.

extension RequestServer {
    /// Gives the server's port to another process, with its name and the requests that wait. Askers notice no more than a
    /// delay. Requests whose handlers have begun are answered here. The call blocks until the port has gone and these have
    /// their replies, and ``run(atMost:streamsAtMost:whenFull:)`` returns then. Any thread may call this method, except a
    /// handler's, which has to reply first.
    ///
    /// The other process gets a message with the right to receive, and makes a server of it with `init(claiming:)`.
    /// - Parameters:
    ///   - right: A port of the other process.
    ///   - id: The id of the message.
    ///   - timeout: The longest wait; nil for no end.
    /// - Returns: False when the time was over before all replies. The port has gone in any case.
    /// - Throws: `PortError`: `notHandedOver` when the other process has not claimed the port in that time, or it, or
    ///   its port, has ended; and as a send. The server goes on.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func handOver(
        to right: MachPort.SendRight, id: UInt32 = 0, timeout: Duration? = nil
    ) throws(PortError) -> Bool {
        try port.handOver(to: right, id: id, before: timeout.map { .now + $0 })
    }

    /// Gives the server's port to another process, and suspends the task until the port has gone and all requests whose
    /// handlers have begun have their replies. A handler must not await this: it has to reply first. Throws what the blocking
    /// form throws, and `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func handOver(
        to right: MachPort.SendRight, id: UInt32 = 0, timeout: Duration? = nil
    ) async throws -> Bool {
        try await port.handOver(to: right, id: id, before: timeout.map { .now + $0 })
    }

    /// Makes a server of a port that another process gives away, with its name, its limits and the requests that wait. Blocks
    /// until the port has come. After an error the port is where it was.
    /// - Parameters:
    ///   - right: The right in the message.
    ///   - nameServer: The name server of later names.
    ///   - timeout: The longest wait; nil for no end.
    ///   - coder: Turns requests and replies into bytes; the same as that of the former server.
    /// - Throws: `PortError`, as `MachPort.ReceiveRight.claim(before:)`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public convenience init(
        claiming right: MachPort.ReceiveRight, nameServer: PortNameServer = .shared,
        timeout: Duration? = .seconds(10), coder: any MessageCoder = CBORCoder()
    ) throws(PortError) {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        self.init(try LocalMessagePort(claiming: right, nameServer: nameServer, before: deadline), coder: coder)
    }

    /// Makes a server of a port that another process gives away, and suspends the task until the port has come. Throws what
    /// the blocking form throws, and `CancellationError`.
    public convenience init(
        claiming right: MachPort.ReceiveRight, nameServer: PortNameServer = .shared,
        timeout: Duration? = .seconds(10), coder: any MessageCoder = CBORCoder()
    ) async throws {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        self.init(try await LocalMessagePort(claiming: right, nameServer: nameServer, before: deadline), coder: coder)
    }
}
