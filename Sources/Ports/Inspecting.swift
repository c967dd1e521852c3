import RunLoops

extension MachPort.SendRight {
    /// Asks the port's owner by whom the port is served, and how that goes. The library in the owner's process answers, on
    /// a thread of its own. While messages wait, or a loop of the port is busy, the owner looks for some time, to see
    /// whether anything moves. Connecting may take up to a second more.
    /// - Parameters:
    ///   - duration: How long the owner looks: zero to ten seconds.
    ///   - deadline: The end of the wait for the answer.
    /// - Throws: ``PortError``: `receiveTimedOut` when the owner does not answer, as one that is stopped; `busy` when
    ///   it answers as many others as it takes; `isInvalid`, `becameInvalid`,
    ///   `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func service(
        observing duration: Duration = .milliseconds(300),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) -> PortService {
        service(try serviceInspection(duration, deadline).answer())
    }

    /// Asks by whom the port is served as the form that blocks does, suspending the task. Throws also
    /// `CancellationError`.
    public nonisolated(nonsending) func service(
        observing duration: Duration = .milliseconds(300),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> PortService {
        service(try await serviceInspection(duration, deadline).answer())
    }

    private func service(_ bytes: [UInt8]) -> PortService {
        var service = PortService(bytes: bytes)
        service.pid = channel.identity.pid ?? 0
        return service
    }

    private func serviceInspection(
        _ duration: Duration, _ deadline: ContinuousClock.Instant?
    ) throws(PortError) -> Inspection {
        try PortError.check("duration", duration, in: .zero...ServiceLook.longest)
        return try Inspection(of: channel, .service, before: deadline) { $0.write(duration) }
    }
}

/// A question to a port's owner, and the port for the answers. The owner learns the end of that port.
final class Inspection: Sendable {
    private let channel: SendChannel
    private let runtime: PortRuntime
    private let answers: Receiver
    private let question: InspectionQuestion
    private let deadline: MonotonicInstant
    /// More than a part of an answer has, so that an owner cannot fill the asker's memory.
    private static let largestAnswer = 4 << 20

    /// The end of the asked port, or of its process.
    private let end: InvalidationWatch

    init(
        of channel: SendChannel, _ kind: InspectionKind, before deadline: ContinuousClock.Instant?,
        _ writeArguments: (inout FieldWriter) -> Void = { _ in }
    ) throws(PortError) {
        try Fork.check()
        guard channel.isValid, let runtime = channel.runtime else { throw .isInvalid(port: channel.identity) }
        let path = channel.isLocal ? runtime.directory : channel.path
        answers = try Receiver(.init(queue: 32, message: Self.largestAnswer), directoryPath: path, runtime.receiving)
        var arguments = FieldWriter()
        writeArguments(&arguments)
        question = InspectionQuestion(
            kind: kind.rawValue, number: channel.id.number,
            answers: try channel.isLocal ? answers.channel.right : answers.channel.exposedRight(),
            arguments: arguments.bytes)
        self.deadline = MonotonicInstant(deadline)
        (self.channel, self.runtime) = (channel, runtime)
        end = InvalidationWatch(MachPort.SendRight(channel)) { [weak answers] in answers?.invalidate() }
    }

    deinit {
        end.cancel()
        answers.invalidate()
    }

    /// A live owner needs far less than a second to accept a connection.
    private var connectDeadline: MonotonicInstant { max(deadline, .now + .seconds(1)) }

    /// The time until the next attempt to ask an owner that answers as many as it takes.
    private static let pause = Duration.milliseconds(50)

    /// Whether the question is repeated until its deadline when the owner is busy.
    private var mayRepeat: Bool {
        [InspectionKind.service.rawValue, InspectionKind.statistics.rawValue].contains(question.kind)
            && !(deadline - Self.pause).hasPassed
    }

    /// The only answer.
    @available(*, noasync)
    func answer() throws(PortError) -> [UInt8] {
        while true {
            do throws(PortError) {
                try begin()
                return try next().bytes
            } catch .busy where mayRepeat {
                _ = Latch().wait(until: .now + Self.pause)
            }
        }
    }

    nonisolated(nonsending) func answer() async throws -> [UInt8] {
        while true {
            do {
                try await begin()
                return try await next().bytes
            } catch PortError.busy where mayRepeat {
                try await Task.sleep(for: Self.pause)
            }
        }
    }

    @available(*, noasync)
    func begin() throws(PortError) { try ask(channel.connectToOwner(before: connectDeadline)) }

    nonisolated(nonsending) func begin() async throws { try await ask(channel.connectToOwner(before: connectDeadline)) }

    /// The next part of the answer, before the question's deadline unless told otherwise.
    @available(*, noasync)
    func next(before other: MonotonicInstant? = nil) throws(PortError) -> (bytes: [UInt8], isLast: Bool) {
        try part { () throws(PortError) in try answers.receive(before: other ?? deadline) }
    }

    nonisolated(nonsending) func next(
        before other: MonotonicInstant? = nil
    ) async throws -> (bytes: [UInt8], isLast: Bool) {
        let received: Result<ReceivedMessage, PortError>
        do {
            received = .success(try await answers.receive(before: other ?? deadline))
        } catch let error as PortError {
            received = .failure(error)
        }
        return try part(received.get)
    }

    /// - Parameter owner: Nil for a port of this runtime.
    func ask(_ owner: ControlConnection?) throws(PortError) {
        guard let owner else {
            return try runtime.housekeeping.perform { [runtime, question] in
                runtime.inspector.asked(question, by: runtime.incarnation)
            }
        }
        // An owner that reads nothing for so long does not answer in time, either.
        guard owner.send(.question(question)) else {
            throw channel.noAnswer(.receiveTimedOut(port: channel.identity))
        }
    }

    func part(_ receive: () throws(PortError) -> ReceivedMessage) throws(PortError) -> (bytes: [UInt8], isLast: Bool) {
        let message: ReceivedMessage
        do throws(PortError) {
            message = try receive()
        } catch .receiveTimedOut {
            throw channel.noAnswer(.receiveTimedOut(port: channel.identity))
        } catch .isInvalid, .becameInvalid {
            throw .becameInvalid(port: channel.identity)
        }
        switch InspectionAnswer.Status(rawValue: message.header.id) {
        case .noPort, nil: throw .becameInvalid(port: channel.identity)
        case .busy: throw .busy(port: channel.identity)
        case .part: return (message.bytes, false)
        case .last: return (message.bytes, true)
        }
    }
}

extension ReceivedMessage {
    fileprivate var bytes: [UInt8] {
        if case .bytes(let bytes)? = components.first { bytes } else { [] }
    }
}
