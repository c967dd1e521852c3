import RunLoopLocks
import RunLoops
import Synchronization

/// A frame that waits for room without a thread, for a suspended task or for a reply that nobody waits for.
///
/// The housekeeping thread sends the frame, not the task: the task could need a thread that itself waits for room
/// behind the frame, and neither would continue.
final class DeferredSend: Waiter {
    private let channel: SendChannel
    private let deadline: MonotonicInstant
    private let connectDeadline: MonotonicInstant
    private let loop: ThreadRunLoop
    private let message: Lock<OutgoingMessage>
    private let isStepQueued = Atomic(false)

    enum End {
        case sent
        case failed(any Error)
    }

    /// Ends on the housekeeping thread.
    private struct Attempt {
        var tell: (@Sendable (End) -> Void)?
        var end: End?
        var watch: ThreadRunLoop.Source1?
        var timers: [ThreadRunLoop.Timer] = []
        var waitsForConnection = false
        /// The handshake that the frame waits for.
        var handshake: ControlHandshake?
    }

    private let attempt = Lock(Attempt())

    init(
        _ message: consuming OutgoingMessage, to channel: SendChannel, before deadline: MonotonicInstant
    ) throws(PortError) {
        loop = try channel.context.housekeeping.loop()
        self.channel = channel
        self.deadline = deadline
        connectDeadline = SendChannel.connectDeadline(deadline)
        self.message = Lock(message)
    }

    /// Suspends until the frame is sent, or cannot be.
    nonisolated(nonsending) func send() async throws {
        let end = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                start { continuation.resume(returning: $0) }
            }
        } onCancel: {
            onLoop { self.end(.failed(CancellationError())) }
        }
        if case .failed(let error) = end { throw error }
    }

    /// - Parameter tell: Called at the end, and kept until then.
    func start(tell: @escaping @Sendable (End) -> Void) {
        channel.join(self)
        let end = attempt.withLock { attempt in
            if attempt.end == nil { attempt.tell = tell }
            return attempt.end
        }
        if let end {
            channel.leave(self)
            return tell(end)
        }
        onLoop { self.begin() }
    }

    func wake() {
        // Many wake-ups at once cause one step. The continuation keeps the frame.
        guard !isStepQueued.exchange(true, ordering: .acquiringAndReleasing) else { return }
        onLoop { [weak self] in self?.step() }
    }

    private func onLoop(_ body: @escaping @Sendable () -> Void) {
        try? channel.context.housekeeping.perform(body)
    }

    // MARK: On the housekeeping thread

    private var hasEnded: Bool { attempt.withLock { $0.end != nil } }

    private func begin() {
        guard !hasEnded else { return }
        waitForDeadline()
        step()
    }

    private func end(_ end: End) {
        let former = attempt.withLock { attempt in
            let former = attempt
            if attempt.end == nil { attempt = Attempt(end: end) }
            return former
        }
        guard former.end == nil else { return }
        channel.leave(self)
        former.watch?.invalidate()
        former.handshake?.outcome.remove(self)
        for timer in former.timers { timer.invalidate() }
        former.tell?(end)
    }

    private func step() {
        isStepQueued.store(false, ordering: .releasing)
        guard !hasEnded else { return }
        do throws(PortError) {
            switch try message.withLock({ (message) throws(PortError) in try channel.nextStep(&message, self) }) {
            case .done: end(.sent)
            case .waitForTurn: stopWatching()
            case .connect:
                stopWatching()
                try connect()
            case .watch(let descriptor, let isConnected):
                try watch(descriptor)
                if !isConnected { waitForConnection() }
            }
        } catch {
            end(.failed(error))
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
        // The descriptor stays the same until the watch is stopped.
        guard attempt.withLock({ $0.watch == nil }) else { return }
        let source = ThreadRunLoop.Source1(descriptor: descriptor, label: "a port that a task sends to") {
            [weak self] _ in
            self?.step()
            return true
        }
        try runLoop { () throws(RunLoopError) in try loop.add(source) }
        attempt.withLock { $0.watch = source }
    }

    private func stopWatching() { attempt.withLock { $0.watch.take() }?.invalidate() }

    private func waitForDeadline() {
        let limit = channel.isConnected ? deadline : connectDeadline
        guard limit != .distantFuture else { return }
        wait(until: limit) { send in
            // The channel may have been connected or closed since the timer was set.
            let isConnected = send.channel.isConnected
            guard (isConnected ? send.deadline : send.connectDeadline).hasPassed else { return send.waitForDeadline() }
            let port = send.channel.id
            let handshake = send.attempt.withLock { $0.handshake }
            send.end(
                .failed(
                    isConnected
                        ? send.channel.noAnswer(.sendTimedOut(port: port))
                        : handshake?.timeoutError(port) ?? send.channel.notAccepted))
        }
    }

    private func waitForConnection() {
        guard attempt.withLock({ !$0.waitsForConnection }) else { return }
        attempt.withLock { $0.waitsForConnection = true }
        wait(until: .now + SendChannel.acceptPatience) { send in
            send.attempt.withLock { $0.waitsForConnection = false }
            guard !send.channel.isConnected else { return }
            send.channel.dropUnaccepted()
            send.step()
        }
    }

    private func wait(until instant: MonotonicInstant, _ then: @escaping @Sendable (DeferredSend) -> Void) {
        let timer = ThreadRunLoop.Timer(at: instant, label: "a send's deadline") { [weak self] timer in
            guard let self, !hasEnded else { return }
            // A frame that waits for a connection sets many timers.
            attempt.withLock { $0.timers.removeAll { $0 === timer } }
            then(self)
        }
        attempt.withLock { $0.timers.append(timer) }
        loop.add(timer)
    }
}
