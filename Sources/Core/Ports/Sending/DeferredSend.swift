import RunLoopLocks
import RunLoops
import Synchronization

/// A frame that waits for room without a thread, for a suspended task or for a reply. The channel retains the object
/// until its outcome.
///
/// The housekeeping thread sends the frame, not the task. The task could need a thread that itself waits for room
/// behind the frame, and neither would continue.
final class DeferredSend: Waiter {
    /// Set on the housekeeping thread.
    let outcome = Promise<Result<Void, any Error>>()

    private let channel: SendChannel
    private let loop: ThreadRunLoop
    private let isStepQueued = Atomic(false)

    /// Used on the housekeeping thread.
    private struct Attempt: ~Copyable {
        var message: OutgoingMessage
        var deadlines: SendChannel.Deadlines
        /// Renews the deadlines, until its time is over. Nil when the sender has named a deadline.
        var patience: Patience<MonotonicInstant>?
        var watch: (any Watch)?
        var watched: Int32?
        var timer: (ThreadRunLoop.Timer, limit: MonotonicInstant)?
        /// The handshake that the frame waits for.
        var handshake: ControlHandshake?
        /// Sends the message to the port's new home.
        var next: DeferredSend?
    }

    private let attempt: Lock<Attempt>

    /// - Parameters:
    ///   - deadline: The end of the wait. A posted message has none.
    ///   - patience: The time of a posted message; nil for another one, and for one that waits for ever.
    init(
        _ message: consuming OutgoingMessage, to channel: SendChannel, before deadline: MonotonicInstant,
        _ patience: Patience<MonotonicInstant>? = nil
    ) throws(PortError) {
        loop = try channel.channels.housekeeping.loop()
        self.channel = channel
        attempt = Lock(
            Attempt(
                message: message, deadlines: channel.deadlines(patience?.nextLook ?? deadline), patience: patience))
        channel.join(self)
        wake()
    }

    /// Suspends until the frame is sent, or cannot be.
    nonisolated(nonsending) func send() async throws {
        try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                outcome.whenSet { continuation.resume(returning: $0) }
            }
        } onCancel: {
            onLoop { self.cancel() }
        }.get()
    }

    func wake() {
        // Many wake-ups at once cause one step.
        guard !isStepQueued.exchange(true, ordering: .acquiringAndReleasing) else { return }
        onLoop { [weak self] in self?.step() }
    }

    private func onLoop(_ body: @escaping @Sendable () -> Void) { try? channel.channels.housekeeping.perform(body) }

    // MARK: On the housekeeping thread

    private func cancel() {
        if let next = attempt.withLock({ $0.next }) { next.cancel() } else { end(.failure(CancellationError())) }
    }

    /// The port has moved.
    private func sendToNewHome() throws(PortError) {
        let channel = channel.latest
        var message = attempt.withLock { exchange(&$0.message, with: .frame(OutgoingFrame(Frame()))) }
        try message.readdress(to: channel)
        let (deadline, patience) = attempt.withLock { ($0.deadlines.send, $0.patience) }
        let next = try DeferredSend(message, to: channel, before: deadline, patience)
        stopWatching()
        wait(until: .distantFuture)
        attempt.withLock { $0.next = next }
        next.outcome.whenSet { self.end($0) }
    }

    private func end(_ result: Result<Void, any Error>) {
        outcome.set(result) {
            channel.leave(self)
            stopWatching()
            wait(until: .distantFuture)
            attempt.withLock { $0.handshake }?.outcome.remove(self)
            // The sender has its descriptors back before it learns that the message was not sent.
            let message = attempt.withLock { exchange(&$0.message, with: .frame(OutgoingFrame(Frame()))) }
            _ = consume message
        }
    }

    private func step() {
        isStepQueued.store(false, ordering: .releasing)
        guard outcome.value == nil, attempt.withLock({ $0.next == nil }) else { return }
        do throws(PortError) {
            let next = try attempt.withLock { (attempt) throws(PortError) in
                try channel.nextStep(&attempt.message, self, attempt.deadlines)
            }
            switch next {
            case .done: end(.success(()))
            case .moved: try sendToNewHome()
            case .connect:
                stopWatching()
                wait(until: attempt.withLock { $0.deadlines.connect })
                try connect()
            case .wait(let descriptor, let limit):
                if let descriptor { try watch(descriptor) } else { stopWatching() }
                wait(until: limit)
            }
        } catch {
            end(.failure(error))
        }
    }

    private func connect() throws(PortError) {
        let former = attempt.withLock { $0.handshake }
        let handshake = try channel.connect(after: former)
        attempt.withLock { $0.handshake = handshake }
        guard let handshake else { return wake() }
        if handshake !== former { handshake.outcome.add(self) }
    }

    private func watch(_ descriptor: Int32) throws(PortError) {
        // The carrier's descriptor stays the same until the watch is stopped.
        guard attempt.withLock({ $0.watch?.isValid != true || $0.watched != descriptor }) else { return }
        stopWatching()
        let watch = try channel.channels.housekeeping.watch(descriptor, "a port that a task sends to", for: self)
        attempt.withLock { ($0.watch, $0.watched) = (watch, descriptor) }
    }

    private func stopWatching() { attempt.withLock { $0.watch.take() }?.invalidate() }

    /// Sets the timer. An earlier deadline stays, because wake-ups must not postpone the check of the connection.
    private func wait(until limit: MonotonicInstant) {
        let former = attempt.withLock { $0.timer?.limit ?? .distantFuture }
        guard limit == .distantFuture ? former != limit : limit < former else { return }
        var timer: (ThreadRunLoop.Timer, limit: MonotonicInstant)?
        if limit != .distantFuture {
            let made = ThreadRunLoop.Timer(due: limit, label: "a send's deadline") { [weak self] _ in self?.timeIsUp() }
            _ = try? loop.add(made)
            timer = (made, limit)
        }
        attempt.withLock { exchange(&$0.timer, with: timer) }?.0.invalidate()
    }

    private func timeIsUp() {
        attempt.withLock { $0.timer = nil }
        guard outcome.value == nil, attempt.withLock({ $0.next == nil }) else { return }
        do throws(PortError) {
            try channel.prepareRetry(of: self, attempt.withLock { $0.deadlines })
        } catch .sendTimedOut where renewDeadlines() {
        } catch .cannotConnect where renewDeadlines() {
        } catch {
            let handshake = attempt.withLock { $0.handshake }
            return end(.failure(handshake?.timeoutError(channel.identity) ?? error))
        }
        step()
    }

    /// Whether a message that is posted with a time has more of it.
    private func renewDeadlines() -> Bool {
        attempt.withLock { attempt in
            guard attempt.patience?.isOver(at: .now) == false, let deadline = attempt.patience?.nextLook else {
                return false
            }
            attempt.deadlines = channel.deadlines(deadline, after: attempt.deadlines)
            return true
        }
    }
}

// Sending without a thread that waits.
extension SendChannel {
    /// Sends the message, and suspends the task while there is no room.
    /// - Throws: ``PortError`` or `CancellationError`, when the message was not sent.
    nonisolated(nonsending) func send(
        _ message: consuming OutgoingMessage, before deadline: MonotonicInstant
    ) async throws {
        if try sendAtOnce(&message, before: deadline) { return }
        try await DeferredSend(message, to: self, before: deadline).send()
    }

    /// Sends the message now, or later when there is room and a connection. Returns at once.
    /// - Parameters:
    ///   - message: The message.
    ///   - time: The time in which this process runs, and the message waits for room and for a connection; nil for ever.
    ///   - ended: Called once if this call throws nothing, most often on the housekeeping thread, with the error if the
    ///     message was not sent in the time.
    /// - Throws: ``PortError``: `sendTimedOut` when too many messages wait, `isInvalid`…
    func post(
        _ message: consuming OutgoingMessage, within time: Duration?, ended: @escaping @Sendable ((any Error)?) -> Void
    ) throws(PortError) {
        if try sendAtOnce(&message, before: .distantFuture, isLast: true) { return ended(nil) }
        // The port asks only processes that watch it how many messages they have sent.
        watch()
        let (size, descriptors) = (message.size, message.descriptorCount)
        let isAdded = try posted.withLock { (posted) throws(PortError) in
            // Under the lock, under which the end of the runtime looks for messages to wait for.
            if channels.isFlushing.load(ordering: .acquiring) { throw .isEnding }
            return posted.add(size, descriptors: descriptors, channels.extraPosts)
        }
        guard isAdded else { throw .sendTimedOut(port: identity) }
        let deferred: DeferredSend
        do throws(PortError) {
            let patience = time.map { Patience($0, from: MonotonicInstant.now) }
            deferred = try DeferredSend(message, to: self, before: .distantFuture, patience)
        } catch {
            posted.withLock { $0.remove(size, descriptors: descriptors, channels.extraPosts) }
            throw error
        }
        deferred.outcome.whenSet { outcome in
            self.posted.withLock { $0.remove(size, descriptors: descriptors, self.channels.extraPosts) }
            if case .failure(let error) = outcome { ended(error) } else { ended(nil) }
        }
    }
}
