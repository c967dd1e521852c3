import RunLoops

// Loops that handle a port's messages.

extension Receiver {
    /// Schedules the port in a mode of a loop, which handles its messages. The loop retains the face.
    func schedule(
        in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode, keeping face: (any AnyObject & Sendable)? = nil
    ) throws(PortError) {
        try Fork.check()
        try takers.schedule(in: loop, forMode: mode) { descriptor in
            // No duplicate is needed, because the port removes the source before it closes the socket.
            ThreadRunLoop.Source1(
                descriptor: descriptor, label: { [channel] in channel.identity.description }, duplicates: false,
                hasWork: { [weak self] in self?.hasWork ?? true }
            ) { [self, face] turn in
                withExtendedLifetime(face) { serve(&turn, turn.source, turn.readiness.isEmpty ? [] : .socket) }
            }
        }
        intake.tellTakersIfAny()
    }

    /// Lets the takers hear the bells of rings, too.
    func hear(_ bells: DescriptorSet) -> Bool {
        takers.hear(bells) {
            // Also invalidated before the bells are closed.
            ThreadRunLoop.Source1(
                descriptor: bells.descriptor, label: { [channel] in "the rings of \(channel.identity)" },
                duplicates: false
            ) { [weak self] turn in
                guard let self, let source = takers.source else { return false }
                return serve(&turn, source, turn.readiness.isEmpty ? [] : .bells)
            }
        }
    }

    /// Whether there is work for a loop that polls.
    private var hasWork: Bool { queue.hasMessages || intake.hasWork }

    /// Handles messages in a loop's turn.
    /// - Parameters:
    ///   - source: The port's source. The turn may be that of its rings' source.
    ///   - reports: The descriptors that began the turn.
    private func serve(
        _ turn: inout ThreadRunLoop.Turn, _ source: ThreadRunLoop.Source1, _ reports: Inbox.Reports
    ) -> Bool {
        guard (try? intake.beginTurn()) != nil else {
            source.clear()
            return false
        }
        defer { intake.endTurn() }
        var handled = false
        var used = LocalQueue.Batch()
        defer { queue.reuse(&used) }
        var handlers = PortHandlers(generation: -1)
        // Whether the loop has to come back to this port. Cleared when the turn finds nothing more.
        var mustRaise = false
        var reports = reports
        var frame: Frame?
        var sender: SenderCredentials?
        while turn.next() {
            if let message = intake.takeAtHand(&handlers, &frame, &sender, &reports) {
                inHand.note(message)
                handlers.handle(message, &used)
                handled = true
                continue
            }
            if let frame = frame.take() {
                guard let frame = intake.checked(frame, sender) else { continue }
                inHand.show(frame) { handlers.handle(frame) }
                handled = true
                continue
            }
            if source.poll(during: turn) {
                if intake.staysOpen(&reports) {
                    mustRaise = false
                    break
                }
                source.stopPolling(during: turn)
            }
            guard var delivery = intake.take(source: source, &reports) else {
                mustRaise = false
                break
            }
            if delivery.isFirst {
                mustRaise = source.raiseIfNested(during: turn)
                takers.wakeWaiters()
            }
            delivery.handle(&used, inHand)
            handled = true
        }
        source.settleRaise(during: turn)
        // A check costs less than a turn that finds nothing, and leaves the loop's next pass to other events.
        if mustRaise, intake.mayHaveMore() { source.raise(during: turn) }
        return handled
    }
}
