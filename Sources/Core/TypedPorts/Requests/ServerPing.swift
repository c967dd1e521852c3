import Ports

extension RequestServer {
    /// The id of a server's question to itself, which each server answers.
    static let pingID = KnownRequest(name: "swift-ports.server.ping").id

    /// Checks that the server serves: sends it a request of the library's own, and returns when a task of
    /// ``run(atMost:streamsAtMost:whenFull:)`` has answered. For a watchdog that restarts a stuck program.
    ///
    /// The request waits its turn among the requests without a lane. When it gets none in time, but the server has begun
    /// with other requests meanwhile, the server is busy, and the call returns. So the call throws when nothing takes the
    /// port's requests, when tasks get no thread, and when the handlers of all requests that may be in progress hang.
    /// - Parameter timeout: The time for the answer.
    /// - Throws: `PortError`: `receiveTimedOut` or `sendTimedOut` when the server is stuck, `isInvalid` or `refused` when it
    ///   has ended; `CancellationError`.
    public nonisolated(nonsending) func ping(timeout: Duration = .seconds(10)) async throws {
        let before = begunCount
        do {
            _ = try await RemoteMessagePort(sendRight).request(MachPort.Message(id: Self.pingID), timeout: timeout)
        } catch {
            guard PortError.isTimeout(error), begunCount != before else { throw error }
        }
    }
}

extension PortError {
    /// Whether an error says that a peer had no room, or has not answered, in time.
    package static func isTimeout(_ error: any Error) -> Bool {
        switch error {
        case PortError.receiveTimedOut, PortError.sendTimedOut: true
        default: false
        }
    }
}
