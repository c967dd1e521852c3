import RunLoops
import Synchronization
import ZeroMQ

/// A frame that waits for room without a thread: its task is suspended, or nobody waits for it at all.
///
/// The housekeeping thread sends it. A task that is woken to do so itself could be one of a thread that, behind it, waits
/// for room too: neither would go on.
final class SuspendedSend: Waiter {
    private let channel: SendChannel
    private let deadline: MonotonicInstant
    private let connectDeadline: MonotonicInstant
    private let loop: ThreadRunLoop
    private let frame: Mutex<Frame>
    private let isStepQueued = Atomic(false)

    enum End {
        case sent
        case failed(any Error)
    }

    /// From the asking to the answer. Ends on the housekeeping thread.
    private struct Attempt {
        var tell: (@Sendable (End) -> Void)?
        var end: End?
        var watch: ThreadRunLoop.Source1?
        var timers: [ThreadRunLoop.Timer] = []
        var waitsForConnection = false
        /// The call at the port's process that the frame waits for.
        var call: ControlCall?
    }

    private let attempt = Mutex(Attempt())

    init(
        _ frame: consuming Frame, to channel: SendChannel, before deadline: MonotonicInstant,
        connectBefore connectDeadline: MonotonicInstant
    ) throws(PortError) {
        loop = try PortProcess.current.housekeepingLoop()
        self.channel = channel
        self.deadline = deadline
        self.connectDeadline = connectDeadline
        self.frame = Mutex(frame)
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

    /// Begins. Whatever `tell` has captured is kept until the end, of which it is told.
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
        // Many may tell at once. Whoever waits keeps it.
        guard !isStepQueued.exchange(true, ordering: .acquiringAndReleasing) else { return }
        onLoop { [weak self] in self?.step() }
    }

    private func onLoop(_ body: @escaping @Sendable () -> Void) {
        loop.perform(body)
        // A block from the loop's own thread does not keep it from going to sleep.
        if loop.isCurrent { loop.wakeUp() }
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
        former.call?.outcome.remove(self)
        for timer in former.timers { timer.invalidate() }
        former.tell?(end)
    }

    private func step() {
        isStepQueued.store(false, ordering: .releasing)
        guard !hasEnded else { return }
        do throws(PortError) {
            switch try frame.withLock({ (frame) throws(PortError) in try channel.nextStep(&frame, self) }) {
            case .done:
                end(.sent)
            case .waitForTurn:
                // What the socket has to tell is not what it waits for.
                stopWatching()
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
        let former = attempt.withLock { $0.call }
        let call = try channel.connect(after: former)
        attempt.withLock { $0.call = call }
        guard let call else { return wake() }
        if call !== former { call.outcome.add(self) }
    }

    private func watch(_ descriptor: Int32) throws(PortError) {
        // The same socket's, as long as there was no new connection.
        guard attempt.withLock({ $0.watch == nil }) else { return }
        let source = ThreadRunLoop.Source1(descriptor: descriptor, label: "a port that a task sends to") {
            [weak self] _ in
            self?.step()
            return true
        }
        try runLoop { () throws(RunLoopError) in try loop.add(source) }
        attempt.withLock { $0.watch = source }
    }

    private func stopWatching() {
        let watch = attempt.withLock { attempt in
            defer { attempt.watch = nil }
            return attempt.watch
        }
        watch?.invalidate()
    }

    private func waitForDeadline() {
        let limit = channel.isConnected ? deadline : connectDeadline
        guard limit != .distantFuture else { return }
        wait(until: limit) { send in
            // It may have been connected meanwhile, or the other way round.
            let isConnected = send.channel.isConnected
            guard (isConnected ? send.deadline : send.connectDeadline).hasPassed else { return send.waitForDeadline() }
            let port = send.channel.description
            let call = send.attempt.withLock { $0.call }
            send.end(
                .failed(
                    isConnected
                        ? PortError.sendTimedOut(port: port) : call?.lateError(port) ?? send.channel.isNotAccepted))
        }
    }

    private func waitForConnection() {
        guard attempt.withLock({ !$0.waitsForConnection }) else { return }
        attempt.withLock { $0.waitsForConnection = true }
        wait(until: .now + SendChannel.connectPatience) { send in
            send.attempt.withLock { $0.waitsForConnection = false }
            guard !send.channel.isConnected else { return }
            send.channel.dropUnaccepted()
            send.step()
        }
    }

    private func wait(until instant: MonotonicInstant, _ then: @escaping @Sendable (SuspendedSend) -> Void) {
        let timer = ThreadRunLoop.Timer(at: instant, label: "a send's deadline") { [weak self] timer in
            guard let self, !hasEnded else { return }
            // Whoever waits for a connection has one every few moments.
            attempt.withLock { $0.timers.removeAll { $0 === timer } }
            then(self)
        }
        attempt.withLock { $0.timers.append(timer) }
        loop.add(timer)
    }
}
