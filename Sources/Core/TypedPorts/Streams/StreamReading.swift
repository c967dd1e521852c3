import Ports
import RunLoopLocks

/// A request for a stream, and the port for its elements. The release ends both.
///
/// The stream's last message says how the stream ends, and so proves that no element is missing. The server replies to
/// the request only after this side has released the port. When the request ends before the stream, the server has
/// refused it or has ended, and the rest of the stream is on its way or lost.
final class StreamReading: StreamSource {
    /// The queue limit in batches, of the server and of this process each.
    private static let queueLimit = 8

    private let port: MachPort
    private let server: RemoteMessagePort
    private let state: State
    private let asking: Task<Void, Never>

    private final class State: Sendable {
        /// The end of the request; nil before.
        let requestEnd = Lock<RequestEnd?>(nil)
        /// True after the stream's own end.
        let isComplete = Lock(false)
    }

    private enum RequestEnd {
        /// The server has sent all elements.
        case replied
        case failed(any Error)
    }

    /// How long messages may be on their way after the end of their request, while a reader waits.
    private static let (transitAfterReply, transitAfterFailure) = (Duration.seconds(1), Duration.milliseconds(100))

    /// Longer than any stream.
    static let endless = Duration.seconds(1 << 40)

    typealias Ask = @Sendable (MachPort.Message, RemoteMessagePort) async throws -> MachPort.Message

    /// Returns when the server has begun.
    /// - Parameters:
    ///   - message: The request, without the port for the elements.
    ///   - ask: Sends the request, and returns when it has ended.
    ///   - successor: The port that has the server's place after the server's end; nil for the server itself.
    init(
        of server: RemoteMessagePort, _ message: MachPort.Message, before deadline: ContinuousClock.Instant,
        _ ask: @escaping Ask = { try await $1.request($0, timeout: endless) },
        successor: (@Sendable () async throws -> RemoteMessagePort)? = nil
    ) async throws {
        let port = try server.makePort(queueLimit: Self.queueLimit)
        var message = message
        message.components.append(.port(port.sendRight))
        let state = State()
        self.port = port
        self.state = state
        self.server = server
        asking = Task { [message, right = port.sendRight] in
            let end = await Self.end(of: message, server, ask)
            state.requestEnd.withLock { $0 = end }
            try? await right.send(MachPort.Message(id: StreamMessage.requestEnded.rawValue))
        }
        // The first message has no elements.
        do {
            _ = try await nextMessage(before: deadline, hasBegun: false)
        } catch is StreamTimedOut {
            // The port may have ended meanwhile. Then the error names the port that now has the name, or says that
            // there is none.
            let server = server.isValid ? server : try await successor?() ?? server
            throw PortError.receiveTimedOut(port: server.identity)
        }
    }

    /// Asks for the stream, and waits for the end of the request.
    private static func end(
        of request: MachPort.Message, _ server: RemoteMessagePort, _ ask: Ask
    ) async -> RequestEnd {
        do {
            let reply = try await ask(request, server)
            if reply.id == StreamMessage.end.rawValue { return .replied }
            let failure = RequestFailure("the server replied, and sent no stream")
            return .failed(PortError.failed(port: server.identity, failure))
        } catch {
            return .failed(error)
        }
    }

    deinit {
        // The server replies to the request of a complete stream, which so counts as answered.
        if !state.isComplete.withLock({ $0 }) { asking.cancel() }
        port.invalidate()
    }

    nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?
    ) async throws -> MachPort.Message? { try await nextMessage(before: deadline, hasBegun: true) }

    private nonisolated(nonsending) func nextMessage(
        before deadline: ContinuousClock.Instant?, hasBegun: Bool
    ) async throws -> MachPort.Message? {
        while true {
            let requestEnd = state.requestEnd.withLock { $0 }
            let message: MachPort.Message
            do {
                message = try await port.receive(before: Self.limit(deadline, requestEnd, hasBegun))
            } catch PortError.receiveTimedOut {
                switch requestEnd {
                case .failed(let error): throw error
                case .replied where !server.isValid: throw PortError.becameInvalid(port: server.identity)
                case .replied, nil: if let deadline, deadline <= .now { throw StreamTimedOut() }
                }
                continue
            }
            switch StreamMessage(rawValue: message.id) {
            case .elements: return message
            case .end:
                state.isComplete.withLock { $0 = true }
                return nil
            case .failure:
                state.isComplete.withLock { $0 = true }
                let bytes = message.components.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }
                throw PortError.failed(port: server.identity, RequestFailure(components: bytes))
            case .requestEnded: continue
            case nil:
                throw PortError.failed(
                    port: server.identity, RequestFailure("the server sent a message that is none of a stream"))
            }
        }
    }

    /// The deadline for the next message.
    private static func limit(
        _ deadline: ContinuousClock.Instant?, _ requestEnd: RequestEnd?, _ hasBegun: Bool
    ) -> ContinuousClock.Instant? {
        let limit: ContinuousClock.Instant
        switch requestEnd {
        case nil: return deadline
        case .failed: limit = hasBegun ? .now + transitAfterFailure : .now
        case .replied: limit = .now + transitAfterReply
        }
        return deadline.map { min($0, limit) } ?? limit
    }
}
