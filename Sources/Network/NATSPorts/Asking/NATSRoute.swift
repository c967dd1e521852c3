import Ports
import RunLoopLocks
import TypedPorts

/// The way from a client to the servers of a name.
final class NATSRoute: RequestRoute {
    let connection: NATSConnection
    let name: String
    let subjects: ServiceSubjects

    init(_ name: String, _ connection: NATSConnection) throws(NATSError) {
        subjects = try ServiceSubjects(name)
        (self.name, self.connection) = (name, connection)
    }

    var service: PortIdentity { PortIdentity(service: name, network: connection.url) }
    var networkProtocol: String { "nats" }

    nonisolated(nonsending) func request(
        _ message: MachPort.Message, timeout: Duration, mayRepeat: Bool
    ) async throws -> MachPort.Message {
        let deadline = ContinuousClock.now + timeout
        let frame = Frame(Question.request(id: message.id), try message.networkComponents()).bytes
        var pause = Duration.zero
        while true {
            do {
                return try await reply(to: frame, before: deadline)
            } catch PortError.refused where pause + .milliseconds(10) < deadline - .now {
                // The server ends, and has handled nothing. NATS soon chooses among the others.
                if pause > .zero { try await Task.sleep(for: pause) }
                pause = min(max(.milliseconds(10), pause * 2), .seconds(1))
            } catch PortError.becameInvalid where mayRepeat && deadline > .now {
                continue
            }
        }
    }

    private nonisolated(nonsending) func reply(
        to frame: [UInt8], before deadline: ContinuousClock.Instant
    ) async throws -> MachPort.Message {
        let asked = AwaitedAnswer()
        let number = try await ask(frame, asked, deadline: deadline, before: deadline)
        switch await asked.outcome.wait() {
        case .answer(let answer):
            guard case .reply(let id) = answer.head else { throw error(of: answer.head) }
            return answer.message(id: id)
        case .end(let reason):
            connection.release(number)
            throw error(of: reason)
        case nil:
            connection.release(number)
            throw CancellationError()
        }
    }

    /// Publishes a request, as soon as there is a connection.
    /// - Parameters:
    ///   - deadline: When the request is told that it is late; nil for never.
    ///   - limit: The end of the wait for a connection.
    /// - Returns: The number of the request.
    /// - Throws: `PortError`: `messageTooLarge`, `cannotConnect`; `NATSError.closed`; `CancellationError`.
    private nonisolated(nonsending) func ask(
        _ frame: [UInt8], _ asked: some Asked, deadline: ContinuousClock.Instant?,
        before limit: ContinuousClock.Instant
    ) async throws -> UInt64 {
        while true {
            guard try await connection.isConnected(before: limit) else {
                throw PortError.cannotConnect(
                    port: service, reason: "the connection to NATS is lost, and has not come back in time")
            }
            let room = connection.handle.messageLimit
            guard frame.count <= room else {
                throw PortError.messageTooLarge(port: service, size: frame.count, limit: room)
            }
            let number = connection.add(asked, control: subjects.control, deadline: deadline)
            let reply = connection.asked.subject(of: number)
            switch connection.handle.publish(frame, to: subjects.requests, reply: reply) {
            case .sent: return number
            case .unclear:
                _ = connection.asked.remove(number)
                throw PortError.becameInvalid(port: service)
            case .unsent:
                _ = connection.asked.remove(number)
                // The connection has just ended, and its state follows.
                try await Task.sleep(for: .milliseconds(10))
            }
        }
    }

    var nobodyServes: PortError { .nameNotFound(name, directory: connection.url) }

    func error(of reason: AskedEnd) -> PortError {
        switch reason {
        case .noResponders: nobodyServes
        case .lost: .becameInvalid(port: service)
        case .late: .receiveTimedOut(port: service)
        case .otherVersion(let version):
            .incompatibleVersion(what: "\(service)", ours: Int(FrameFormat.version), theirs: Int(version))
        }
    }

    /// The error for an answer in place of the reply.
    func error(of answer: Answer) -> any Error {
        switch answer {
        case .failed(let failure): PortError.failed(port: service, failure)
        case .busy(let limit): PortError.serverBusy(port: service, limit: limit)
        case .refused: PortError.refused(port: service)
        case .unanswered: PortError.unanswered(port: service)
        case .reply, .begun, .elements, .end, .held:
            PortError.failed(
                port: service, RequestFailure("the server sent another answer than the request asks for"))
        }
    }

    nonisolated(nonsending) func stream(
        _ message: MachPort.Message, before deadline: ContinuousClock.Instant
    ) async throws -> any StreamSource {
        let question = Question.stream(id: message.id, window: AskedStream.window)
        let frame = Frame(question, try message.networkComponents()).bytes
        while true {
            let asked = AskedStream()
            let stream = NATSStream(asked, try await ask(frame, asked, deadline: nil, before: deadline), self)
            do {
                try await stream.begin(before: deadline)
                return stream
            } catch PortError.refused where deadline > .now + .milliseconds(20) {
                try await Task.sleep(for: .milliseconds(10))
            }
        }
    }
}
