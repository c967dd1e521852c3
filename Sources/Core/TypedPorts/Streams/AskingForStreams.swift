import Ports

// How the targets of requests are asked for streams.

extension NamedMessagePort {
    nonisolated(nonsending) func stream(
        for request: TargetRequest, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource {
        // The next port of the name is asked when this one has certainly not taken the request.
        try await StreamReading(of: port(before: deadline), request.message, before: deadline) { message, _ in
            try await self.request(message, timeout: StreamReading.endless, mayRepeat: false)
        } successor: {
            try await self.port(before: deadline)
        }
    }
}

extension RemoteMessagePort {
    nonisolated(nonsending) func stream(
        for request: TargetRequest, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource { try await StreamReading(of: self, request.message, before: deadline) }
}

extension NetworkTarget {
    /// Asks the server of this machine for a stream, or else those of others.
    nonisolated(nonsending) func stream(
        for request: TargetRequest, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource {
        guard let port = try await localPort(before: deadline) else {
            try leaveMachine(request)
            return try await route.stream(request.message, before: deadline)
        }
        return try await StreamReading(
            of: port, request.message, before: deadline,
            successor: {
                try await self.localPort(before: deadline) ?? port
            })
    }
}
