import RunLoops

// The wait for the reply to a request, up to its deadline.

extension RemoteMessagePort {
    private static let privateMode: ThreadRunLoop.Mode = "swift-ports replies"

    /// - Parameter isSent: Set when the message is sent, so that the server may handle it.
    nonisolated(nonsending) func request(
        _ message: MachPort.Message, before deadline: MonotonicInstant, _ isSent: inout Bool
    ) async throws -> MachPort.Message {
        try Task.checkCancellation()
        let channel = sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true)
        try await channel.send(request.outgoing(message), before: deadline)
        request.noteSent()
        isSent = true
        return try request.reply(
            await request.pending.outcome.value(before: deadline, on: request.housekeeping))
    }

    /// - Parameter isSent: Set when the message is sent, so that the server may handle it.
    func request(
        _ message: MachPort.Message, before sendDeadline: MonotonicInstant, _ replyMode: ThreadRunLoop.Mode?,
        _ isSent: inout Bool, _ replyDeadline: () -> MonotonicInstant
    ) throws(PortError) -> MachPort.Message {
        try Fork.check()
        let (loop, channel) = (ThreadRunLoop.current, sendRight.channel)
        // The private mode keeps the reply port, because adding and removing it would cost two system calls.
        let mode = replyMode ?? Self.privateMode
        if channel.isLocal, channel.localPort?.isServedOnlyHere(outside: mode) == true {
            throw .servedOnlyHere(port: identity)
        }
        var request = try OpenRequest(to: channel)
        let (port, pending) = (request.replyPort, request.pending)
        let source = ThreadRunLoop.Source0 {}
        pending.outcome.whenSet { _ in
            source.signal()
            if !loop.isCurrent { loop.wakeUp() }
        }
        // Before the request is sent, because no descriptor may be left to wait with. A nested request leaves the port to
        // the outer request.
        let isScheduled = port.takers.areScheduled(in: loop, forMode: mode)
        if !isScheduled { try port.schedule(in: loop, forMode: mode) }
        defer { if replyMode != nil, !isScheduled { port.takers.remove(from: loop, forMode: mode) } }
        defer { source.invalidate() }
        try runLoop { () throws(RunLoopError) in
            try loop.add(source, forMode: mode)
            try loop.prepare(mode)
        }
        var outgoing = try request.outgoing(message)
        try channel.send(&outgoing, before: sendDeadline)
        request.noteSent()
        isSent = true

        let deadline = replyDeadline()
        while pending.outcome.value == nil, !deadline.hasPassed {
            let seconds = MonotonicInstant.now.duration(to: deadline) / .seconds(1)
            let result = try runLoop { () throws(RunLoopError) in
                try loop.runInMode(mode, seconds: seconds, returnAfterSourceHandled: true)
            }
            // The mode contains this call's source, so the loop itself was stopped.
            if result == .finished, pending.outcome.value == nil {
                throw .unavailable(reason: "the loop of the asking thread was stopped for good")
            }
        }
        return try request.reply(pending.outcome.value)
    }
}
