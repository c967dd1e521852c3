import Dispatch

// Turns of dispatch queues.

extension Receiver {
    /// Lets a dispatch queue, or none, handle the messages in place of the former one. The queue retains the face.
    func setQueue(_ queue: DispatchQueue?, keeping face: (any AnyObject & Sendable)? = nil) throws(PortError) {
        try Fork.check()
        let service = queue.map { queue in
            QueueService(queue, context.housekeeping) { [self, face] service in
                withExtendedLifetime(face) { serve(service) }
            }
        }
        try takers.setQueue(service)
        // The descriptor does not report earlier messages.
        service?.wake()
    }

    /// The most messages that are handled before other blocks have their turn on the queue.
    private static let queueBatch = 64

    /// Handles messages in a queue's turn.
    /// - Returns: Whether there may be more.
    private func serve(_ service: QueueService) -> Bool {
        guard (try? intake.beginTurn()) != nil else { return false }
        defer { intake.endTurn() }
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        for _ in 0..<Self.queueBatch {
            guard !service.isStopped else { return false }
            guard var delivery = intake.take(waiter: service) else {
                // The descriptor stays open until the end of the turn.
                if let descriptor = takers.descriptor { service.watch(descriptor) }
                return false
            }
            if delivery.isFirst { takers.tell() }
            delivery.handle(&used, inHand)
        }
        return true
    }
}
