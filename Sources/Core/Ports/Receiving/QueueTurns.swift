import Dispatch

// Turns of dispatch queues.

extension Receiver {
    /// Lets a dispatch queue, or none, handle the messages in place of the former one. The queue retains the face.
    func setQueue(_ queue: DispatchQueue?, keeping face: (any AnyObject & Sendable)? = nil) throws(PortError) {
        try Fork.check()
        let taker = queue.map { queue in
            QueueTaker(queue, context.housekeeping) { [self, face] taker in
                withExtendedLifetime(face) { serve(taker) }
            }
        }
        try takers.setQueue(taker)
        // The descriptor does not report earlier messages.
        taker?.wake()
    }

    /// The most messages that are handled before other blocks have their turn on the queue.
    private static let queueBatch = 64

    /// Handles messages in a queue's turn.
    /// - Returns: Whether there may be more.
    private func serve(_ taker: QueueTaker) -> Bool {
        guard (try? intake.beginTurn()) != nil else { return false }
        defer { intake.endTurn() }
        var used = LocalQueue.Batch()
        defer { queue.reuse(&used) }
        for _ in 0..<Self.queueBatch {
            guard !taker.isStopped else { return false }
            guard var delivery = intake.take(waiter: taker) else {
                // The descriptor stays open until the end of the turn.
                if let descriptor = takers.descriptor { taker.watch(descriptor) }
                return false
            }
            if delivery.isFirst { takers.tell() }
            delivery.handle(&used, inHand)
        }
        return true
    }
}
