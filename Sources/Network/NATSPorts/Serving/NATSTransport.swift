import Ports
import RunLoopLocks
import RunLoops
import TypedPorts

/// Takes the requests to a name from NATS, and passes them to the port of a server.
final class NATSTransport: RequestTransport {
    /// The requests that are taken at a time: further ones fail, as their askers wait elsewhere.
    private static let limit = 10_000
    /// The queue of the servers of one name, of which one gets each request.
    static let queue = "ports"

    let name: String
    /// The name of this server among those of its service.
    let id = randomName()
    let connection: NATSConnection
    let statistics = ServiceStatistics()
    private let subjects: ServiceSubjects
    /// Whether the server has no other way than NATS.
    private let isOnly: Bool

    private struct State {
        var requests: [String: TakenRequest] = [:]
        /// Requests that were released before they came, because the subscriptions have threads of their own.
        var released: [String: ContinuousClock.Instant] = [:]
        var isFinishing = false
        var subscriptions: [NATSHandle.Subscription] = []
    }

    private let state = Lock(State())
    /// Open while there are no requests.
    private let isIdle = Gate()

    init(_ name: String, _ connection: NATSConnection, isOnly: Bool) throws(NATSError) {
        subjects = try ServiceSubjects(name)
        (self.name, self.connection, self.isOnly) = (name, connection, isOnly)
        isIdle.open()
    }

    private var holder: String { subjects.holder(id) }

    // MARK: The service

    nonisolated(nonsending) func serve(_ server: RequestServer) async throws(PortError) {
        do {
            try subscribe(server)
        } catch {
            return try await end(error)
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { _ = await self.connection.isClosed.wait() }
            group.addTask { await self.endLeases() }
            await group.next()
            group.cancelAll()
        }
        let isClosed = connection.isClosed.isSet
        state.withLock { state in
            state.isFinishing = true
            state.subscriptions = []
        }
        // Nobody would get their replies, or the caller wants no more of them.
        for request in state.withLock({ Array($0.requests.values) }) { request.cancel() }
        // Their tasks end by themselves.
        await Task { _ = await isIdle.wait() }.value
        if isClosed { try await end(connection.end) }
    }

    /// The end of the service while the server goes on. A server that has a name on its machine serves there.
    private nonisolated(nonsending) func end(_ error: NATSError) async throws(PortError) {
        log.error("the service “\(name)” is served no more on NATS: \(error)")
        if isOnly { throw PortError.unavailable(reason: error.description) }
        _ = await OneShot<Void>().wait()
    }

    private func subscribe(_ server: RequestServer) throws(NATSError) {
        // The requests last, because the others serve those that were taken.
        var made: [NATSHandle.Subscription] = []
        for subject in [subjects.control, holder] {
            made.append(try connection.subscribe(subject) { [weak self] in self?.receiveControl($0) })
        }
        let description = ServiceDescription(name, id, subject: subjects.requests, queue: Self.queue)
        for subject in description.subjects {
            made.append(
                try connection.subscribe(subject) { [weak self, weak server] delivery in
                    guard let self, let server, let reply = delivery.reply else { return }
                    let requests = server.networkRequests.map(\.request)
                    let answer = description.answer(
                        to: delivery.subject, requests, statistics, inProgress: requestsInProgress)
                    if let answer { _ = connection.handle.publish(answer, to: reply) }
                })
        }
        made.append(
            try connection.subscribe(subjects.requests, queue: Self.queue) { [weak self, weak server] delivery in
                guard let self, let server else { return }
                self.take(delivery, server)
            })
        state.withLock { $0.subscriptions = made }
    }

    nonisolated(nonsending) func finish(before deadline: ContinuousClock.Instant?) async {
        let requests = state.withLock { state in
            state.isFinishing = true
            return state.subscriptions.last
        }
        // Requests that NATS has sent already are refused, and their askers ask another server.
        requests?.drain()
        _ = await requests?.isDone.wait(until: deadline)
        await isIdle.wait(until: deadline)
        await connection.flush()
    }

    // MARK: Requests

    private func take(_ delivery: Delivery, _ server: RequestServer) {
        // Without a reply subject, nobody could learn the outcome.
        guard let asker = delivery.reply else { return }
        let frame: Frame<Question>
        do throws(MalformedFrame) { frame = try Frame(from: delivery.bytes) } catch {
            let reason =
                error.version.map {
                    "the request has version \($0), and this server speaks version \(FrameFormat.version): update the "
                        + "older of the two"
                } ?? "the message is no request of TypedPorts: ask with a RequestClient, or with portctl"
            let answer = Frame(Answer.failed(RequestFailure(fault: reason)))
            return connection.handle.publish(answer.bytes, to: asker, error: reason)
        }
        switch frame.head {
        case .request(let id): begin(id, nil, frame.components, asker, server)
        case .stream(let id, let window): begin(id, window, frame.components, asker, server)
        case .release, .hold: return
        }
    }

    private func begin(
        _ id: UInt32, _ window: UInt32?, _ components: [[UInt8]], _ asker: String, _ server: RequestServer
    ) {
        let handled: NetworkHandled
        do {
            handled = try server.networkRequest(id: id)
            if handled.isStream != (window != nil) {
                throw RequestFailure(
                    fault: "\(handled.request.name) is \(handled.isStream ? "a" : "no") stream here: build server "
                        + "and client from the same sources")
            }
        } catch {
            return answer(.failed(error as? RequestFailure ?? RequestFailure("\(error)")), to: asker)
        }
        let sender = NetworkSender(networkProtocol: "nats", relay: connection.relay)
        let message = server.message(of: handled, components, from: sender.bytes)
        let taken = TakenRequest(handled, window: window)
        let refusal = state.withLock { state -> Answer? in
            if state.isFinishing { return .refused }
            // A request that was given up has no answer, and is not handled.
            if state.released.removeValue(forKey: asker) != nil { return .unanswered }
            if state.requests.count >= Self.limit { return .busy(limit: Self.limit) }
            state.requests[asker] = taken
            isIdle.close()
            return nil
        }
        if let refusal { return answer(refusal, to: asker) }
        let start = ContinuousClock.now
        if window != nil {
            taken.start { [self] in
                statistics.note(handled.request, since: start, await stream(message, taken, asker, server))
                end(asker)
            }
            return
        }
        let work = server.admit(message, from: sender) { [self] handler in
            // A request that was given up before its turn is not handled.
            if !taken.isCancelled {
                await taken.run { [self] in
                    statistics.note(handled.request, since: start, await reply(taken, asker, handler))
                }
            }
            end(asker)
        } refuse: { [self] limit in
            answer(limit.map { .busy(limit: $0) } ?? .refused, to: asker)
            end(asker)
        }
        if let work { taken.start(work) }
    }

    var requestsInProgress: [ForeignRequest] {
        let sender = NetworkSender(networkProtocol: "nats", relay: connection.relay)
        return state.withLock { Array($0.requests.values) }.map { taken in
            ForeignRequest(
                id: taken.handled.request.id, name: taken.handled.request.name, origin: "\(sender)",
                since: taken.since, mayLast: taken.handled.isStream, isCancelled: taken.isCancelled)
        }
    }

    private func end(_ asker: String) {
        // Released after the lock. The gate follows the table under the lock of the table.
        _ = state.withLock { state in
            let taken = state.requests.removeValue(forKey: asker)
            if state.requests.isEmpty { isIdle.open() }
            return taken
        }
    }

    private nonisolated(nonsending) func reply(
        _ taken: TakenRequest, _ asker: String, _ handler: @Sendable () async throws -> MachPort.Message
    ) async -> (any Error)? {
        do {
            let reply = try await handler()
            try publish(Frame(.reply(id: reply.id), try reply.networkComponents()), to: asker)
            return nil
        } catch {
            // Nobody waits for the answer to a request that was given up.
            if !taken.isCancelled { answer(Self.answer(toHandlers: error), to: asker) }
            return error
        }
    }

    private nonisolated(nonsending) func stream(
        _ message: MachPort.Message, _ taken: TakenRequest, _ asker: String, _ server: RequestServer
    ) async -> (any Error)? {
        var hasBegun = false
        do {
            let source = try await server.stream(message, before: .now + .seconds(1 << 40))
            hasBegun = true
            try publish(Frame(.begun(holder: holder)), to: asker)
            while let elements = try await source.nextMessage(before: nil) {
                let components = try elements.networkComponents()
                try await taken.room()
                try taken.send { number in
                    try publish(Frame(.elements(number: number, id: elements.id), components), to: asker)
                }
            }
            try taken.send(isLast: true) { number in try publish(Frame(.end(number: number, nil)), to: asker) }
            // The request ends when the reader has all, or is gone.
            guard await taken.isReleased.wait() != nil else { throw CancellationError() }
            return nil
        } catch {
            if taken.isCancelled { return error }
            guard hasBegun, !(error is CancellationError) else {
                answer(Self.answer(to: error), to: asker)
                return error
            }
            let failure =
                if case .failed(let failure) = Self.answer(to: error) { failure } else {
                    RequestFailure("\(error)")
                }
            try? taken.send(isLast: true) { number in try publish(Frame(.end(number: number, failure)), to: asker) }
            _ = await taken.isReleased.wait()
            return error
        }
    }

    /// The answer that takes an error of a handler to the asker. An error of a port, too, is only the handler's: the
    /// request was handled.
    private static func answer(toHandlers error: any Error) -> Answer {
        if error is CancellationError { return .unanswered }
        return .failed(error as? RequestFailure ?? RequestFailure(String(describing: error)))
    }

    /// The answer that takes an error of the server's port to the asker.
    private static func answer(to error: any Error) -> Answer {
        guard let error = error as? PortError else { return answer(toHandlers: error) }
        return switch error {
        case .failed(_, let failure): .failed(failure)
        case .serverBusy(_, let limit): .busy(limit: limit)
        // The server's port has ended.
        case .refused, .isInvalid: .refused
        case .unanswered, .becameInvalid: .unanswered
        default: .failed(RequestFailure(error.description))
        }
    }

    /// - Throws: `RequestFailure` for a message that is too large, or cannot be sent.
    private func publish(_ answer: Frame<Answer>, to asker: String) throws {
        let (frame, limit) = (answer.bytes, connection.handle.messageLimit)
        guard frame.count <= limit else {
            throw RequestFailure(
                fault:
                    "a message of \(frame.count) bytes is larger than the limit of the NATS server, \(limit): raise "
                    + "its max_payload, or send a stream of smaller elements")
        }
        if connection.handle.publish(frame, to: asker) != .sent {
            throw RequestFailure(fault: "the connection to NATS was lost before the answer")
        }
    }

    private func answer(_ answer: Answer, to asker: String) { try? publish(Frame(answer), to: asker) }

    // MARK: Leases

    private func receiveControl(_ delivery: Delivery) {
        switch try? Frame<Question>(from: delivery.bytes).head {
        case .release(let requests): for asker in requests { release(asker) }
        case .hold(let asker, let wantsAnswer, let taken): hold(taken, of: asker, wantsAnswer: wantsAnswer)
        case .request, .stream, nil: return
        }
    }

    private func release(_ asker: String) {
        let taken = state.withLock { state in
            let taken = state.requests[asker]
            if taken == nil, state.released.count < Self.limit { state.released[asker] = .now }
            return taken
        }
        taken?.release()
    }

    private func hold(_ taken: [UInt64: UInt32], of asker: String, wantsAnswer: Bool) {
        var sent: [UInt64: UInt32] = [:]
        for (number, count) in taken {
            let request = state.withLock { $0.requests["\(asker)\(number)"] }
            sent[number] = request?.hold(taken: count)
        }
        // No request has the number 0.
        if wantsAnswer, !sent.isEmpty { answer(.held(holder: holder, sent: sent), to: "\(asker)0") }
    }

    /// Ends the requests whose askers are gone, until the task is cancelled.
    private func endLeases() async {
        var last = ContinuousClock.now
        while (try? await Task.sleep(for: AskedRequests.renewal / 2)) != nil {
            let now = ContinuousClock.now
            // Renewals that came while this process was stopped, or had no processor, are not counted yet.
            let isLate = now - exchange(&last, with: now) > AskedRequests.renewal
            let requests = state.withLock { state in
                state.released = state.released.filter { now - $0.value < .seconds(10) }
                return Array(state.requests.values)
            }
            if !isLate { for request in requests where request.isAbandoned { request.cancel() } }
        }
    }
}
