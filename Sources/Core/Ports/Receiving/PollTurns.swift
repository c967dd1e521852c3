// Turns of foreign event loops.

extension Receiver {
    func makePollTaker() throws(PortError) -> PollTaker {
        // The turn keeps the socket open.
        try intake.beginTurn()
        defer { intake.endTurn() }
        try context.channels.sockets.checkReserve()
        // The bell is connected now, because its connection makes the descriptor readable, and CFRunLoop counts a turn
        // without a message as one with a message.
        try channel.connectBell()
        let taker = try takers.addPollTaker()
        intake.tellTakersIfAny()
        return taker
    }

    /// Handles messages in a foreign loop's turn.
    /// - Returns: The number of messages.
    func serve(_ taker: PollTaker, atMost limit: Int, while goesOn: () -> Bool) throws(PortError) -> Int {
        try intake.beginTurn()
        defer { intake.endTurn() }
        var used = LocalQueue.Batch()
        defer { queue.reuse(&used) }
        var (count, hasMore) = (0, true)
        while count < limit, count == 0 || goesOn() {
            guard var delivery = intake.take(waiter: taker) ?? again(taker, { intake.take(waiter: taker) }) else {
                return count
            }
            // Checked before the handler, which may run the foreign loop, because the edge that began this turn is
            // consumed.
            if count == 0 || delivery.isFirst {
                hasMore = intake.mayHaveMore()
                if hasMore { delivery.isFirst ? takers.tell() : taker.wake() }
            }
            delivery.handle(&used, inHand)
            count += 1
        }
        if !hasMore || !intake.mayHaveMore(), taker.clear(), intake.mayHaveMore() { taker.wake() }
        return count
    }

    /// Takes the next message for a foreign loop.
    func takeNow(_ taker: PollTaker, takesRequests: Bool = false) throws(PortError) -> ReceivedMessage? {
        try intake.beginTurn()
        defer { intake.endTurn() }
        return takeMessage(takesRequests) ?? again(taker) { takeMessage(takesRequests) }
    }

    /// Lowers the descriptor after a take that has found nothing. Lowering it may consume the wake-up of a message that
    /// has just arrived, so this takes once more then.
    private func again<Taken: ~Copyable>(_ taker: PollTaker, _ take: () -> Taken?) -> Taken? {
        guard taker.clear() else { return nil }
        let taken = intake.hasKnownMore ? take() : nil
        // The foreign loop has to learn the end of the port.
        if taken != nil || !intake.isOpen { taker.wake() }
        return taken
    }
}
