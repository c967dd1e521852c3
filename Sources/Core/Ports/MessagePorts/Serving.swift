import RunLoops

// Tasks that answer the requests of a message port.

extension LocalMessagePort {
    /// The port's requests, one after the other, for a task's `for await`, including messages that want no reply. The
    /// sequence takes a request only when the task asks for one, so a slow task causes back-pressure. Each request goes
    /// to one task or loop. The sequence retains the port, and ends when the port is invalid or the task is cancelled.
    public var requests: Requests { Requests(port: self, iteration: nil) }

    /// The requests of a message port. See ``LocalMessagePort/requests``.
    public struct Requests: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let port: LocalMessagePort
        let iteration: TaskIteration?

        /// Starts to take requests.
        public func makeAsyncIterator() -> Requests {
            Requests(port: port, iteration: TaskIteration(port.port.receiver))
        }

        /// Suspends until there is a request, and takes it; nil when the port is invalid or the task was cancelled. A
        /// port that finishes refuses further requests, and the sequence ends with the port.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> MessagePortRequest? {
            do {
                while true {
                    let message = try await port.port.receiver.receive(before: .distantFuture, takesRequests: true)
                    if let request = MessagePortRequest(message, port.ledger) { return request }
                }
            } catch {
                if port.isValid, !Task.isCancelled { log.error("\(port) is served no more: \(error)") }
                return nil
            }
        }
    }

    /// Answers requests, each in a task of its own and so in no order, until the port is invalid or the calling task is
    /// cancelled. Then handlers that still run are cancelled, unless the port has gone to another process, and the call
    /// returns when all have returned.
    ///
    ///     let server = try LocalMessagePort(name: "com.example.echo")
    ///     try await server.serve { request in request.data }
    ///
    /// The handler returns the reply's data, or throws. If it throws a ``RequestFailure``, the asker gets that failure.
    /// For any other error, the asker gets its description. An asker that gives up cancels the handler's task, and a
    /// request that was given up before is not handled. When the calling task is cancelled, askers get
    /// ``PortError/unanswered(port:)``. To end with replies to all requests that were taken, call `finish(before:)`.
    /// - Parameters:
    ///   - limit: The largest number of handlers at a time. Further requests wait at the port (back-pressure).
    ///   - handler: Called with each request, and with each message that wants no reply.
    /// - Throws: ``PortError/invalidLimit(name:value:allowed:)``, at once, for a limit below 1.
    public func serve(
        atMost limit: Int = 100, _ handler: @escaping @Sendable (MessagePortRequest) async throws -> [UInt8]?
    ) async throws(PortError) {
        try await serveMessages(atMost: limit) { MachPort.Message(data: try await handler($0)) }
    }

    /// Answers requests with messages of any components, each in a task of its own, until the port is invalid or the
    /// calling task is cancelled. ``serve(atMost:_:)`` says more.
    /// - Parameters:
    ///   - limit: The largest number of handlers at a time. Further requests wait at the port (back-pressure).
    ///   - handler: Called with each request, and with each message that wants no reply.
    /// - Throws: ``PortError/invalidLimit(name:value:allowed:)``, at once, for a limit below 1.
    public func serveMessages(
        atMost limit: Int = 100, _ handler: @escaping @Sendable (MessagePortRequest) async throws -> MachPort.Message
    ) async throws(PortError) {
        try PortError.check("atMost", limit, in: 1...Int.max)
        try await serveMessages(in: RequestLane(atMost: limit, whenFull: .wait), lasting: nil, handler)
    }

    /// Serves requests that may last beside the others. They have a limit of their own, above which they fail.
    /// - Parameters:
    ///   - lane: The lane of requests whose kind has none.
    ///   - lastingLimit: The limit of requests that may last; nil for the same limit as the others, and no failures.
    ///   - handler: Called with each request.
    package func serveMessages(
        in lane: RequestLane, lasting lastingLimit: Int?,
        _ handler: @escaping @Sendable (MessagePortRequest) async throws -> MachPort.Message
    ) async throws(PortError) {
        try PortError.check("streamsAtMost", lastingLimit ?? 0, in: 0...Int.max)
        let lanes = RequestLanes(lane, lasting: lastingLimit.map(RequestLane.lasting(atMost:)))
        ledger.serving.add(lanes)
        // Ends the wait for a handler when the port becomes invalid.
        let invalidated = port.receiver.invalidated
        invalidated.add(lanes)
        defer { invalidated.remove(lanes) }
        await withDiscardingTaskGroup { group in
            // Not an iterator, which would count as one more task that serves the port.
            var requests = requests
            while true {
                await lanes.wait()
                guard let request = await requests.next() else { break }
                let arrival = lanes.arrive(ledger.serving.kind(of: request.id), request.id) {
                    RequestLanes.Work(
                        answer: { await request.answer(at: self, handler) }, refuse: { request.replyRight?.refuse() })
                }
                switch arrival {
                case .start(let lane):
                    group.addTask {
                        await request.answer(at: self, handler)
                        // The handler's place goes to the next request of the lane.
                        while let next = lanes.end(lane, isLast: Task.isCancelled) { await next.answer() }
                    }
                case .wait(let lane, let ticket):
                    // A cancelled request must not keep others from being taken.
                    request.onCancel { [weak lanes] in lanes?.withdraw(lane, ticket) }
                case .refuse(let limit): request.refuse(limit: limit)
                case .turnAway: request.replyRight?.refuse()
                }
            }
            ledger.serving.remove(lanes)
            // A port that has gone to another process leaves its taken requests here.
            if hasMoved, !Task.isCancelled { return }
            group.cancelAll()
            // Nobody has handled these requests, so their askers can ask a successor.
            lanes.refuseWaiting()
        }
    }
}

extension LocalMessagePort {
    /// Admits a request that has come by another transport to the lane of its kind, while the port is served. The port's
    /// end does not wait for it.
    /// - Parameters:
    ///   - id: The sender's number for the subject of the request.
    ///   - handle: Handles the request. When the request has to wait for its turn, a task calls this closure then.
    ///   - refuse: Called in place of it: with the limit of a full lane, or with nil when the port is not served, or finishes.
    /// - Returns: When it is the request's turn now, the work, for a task of the caller.
    package func admit(
        _ id: UInt32, _ handle: @escaping @Sendable () async -> Void, refuse: @escaping @Sendable (Int?) -> Void
    ) -> (@Sendable () async -> Void)? {
        guard let lanes = ledger.serving.lanes.first else {
            refuse(nil)
            return nil
        }
        let arrival = lanes.arrive(ledger.serving.kind(of: id), id) {
            RequestLanes.Work(answer: handle, refuse: { refuse(nil) })
        }
        switch arrival {
        case .start(let lane):
            return {
                await handle()
                lanes.goOn(lane)
            }
        case .wait: return nil
        case .refuse(let limit):
            refuse(limit)
            return nil
        case .turnAway:
            refuse(nil)
            return nil
        }
    }

    /// Mentions the requests of another transport in answers about this port.
    /// - Parameter requests: Called on a thread of the library, which it must not block.
    package func addTransport(_ requests: @escaping @Sendable () -> [ForeignRequest]) {
        ledger.serving.addTransport(requests)
    }

    /// Writes a failure of a handler into the log.
    package func noteFailure(_ error: any Error, of id: UInt32, from asker: @autoclosure () -> String) {
        func text() -> String {
            let subject = ledger.serving.kind(of: id)?.name ?? "message \(id)"
            return "the handler of \(self) failed for \(subject) of \(asker()): \(error)"
        }
        // A failure that the handler chose is an answer.
        if (error as? RequestFailure)?.isFault == false { log.debug(text()) } else { log.info(about: .own, text()) }
    }
}

extension MessagePortRequest {
    /// Tells the asker that its lane is full.
    fileprivate func refuse(limit: Int) {
        guard let replyRight else { return }
        do throws(PortError) {
            try replyRight.fail(with: RequestFailure(busy: limit))
        } catch {
            replyRight.noteUnsent(error)
        }
    }
}

extension MessagePortRequest {
    /// Calls the handler in a task, which is cancelled when the asker gives up, and sends the reply or the failure.
    fileprivate func answer(
        at port: LocalMessagePort, _ handler: @escaping @Sendable (MessagePortRequest) async throws -> MachPort.Message
    ) async {
        if isCancelled { return }
        // A request is counted by its right to reply, and a message without one is counted here.
        let oneWay = replyRight == nil ? message.received.map(port.ledger.serving.beginOneWay) : nil
        defer { if let oneWay { port.ledger.serving.endOneWay(oneWay) } }
        let work = Task { try await handler(self) }
        onCancel { work.cancel() }
        let outcome = await withTaskCancellationHandler {
            await work.result
        } onCancel: {
            work.cancel()
        }
        if case .failure(let error) = outcome, !(error is CancellationError) {
            port.noteFailure(error, of: id, from: "\(ProcessIdentity(pid: message.sender?.pid ?? 0))")
        }
        guard let replyRight, !isCancelled else { return }
        do throws(PortError) {
            switch outcome {
            case .success(let reply): try replyRight.reply(with: reply)
            // The asker learns that no reply follows.
            case .failure(is CancellationError): break
            case .failure(let error):
                try replyRight.fail(with: error as? RequestFailure ?? RequestFailure(String(describing: error)))
            }
        } catch {
            replyRight.noteUnsent(error)
        }
    }
}
