import CBench
import RunLoops

/// A thread of ours with a stall monitor.
final class WatchedThread: LoopThread {
    private let thread: OurThread
    private let monitor: StallMonitor

    init() throws {
        thread = try OurThread()
        monitor = try StallMonitor(thread.thread.loop) { stall in print(stall) }
    }

    func execute(_ work: @escaping @Sendable () -> Void) { thread.execute(work) }
}

/// A thread of ours whose loop is recorded.
final class RecordedThread: LoopThread {
    private let thread: OurThread
    private let recorder: LoopRecorder

    init() throws {
        thread = try OurThread()
        recorder = try LoopRecorder(thread.thread.loop)
    }

    func execute(_ work: @escaping @Sendable () -> Void) { thread.execute(work) }
}

/// Passes that ask the kernel and do not sleep, on a thread of their own: the dearest case of real work for a monitor or a recorder.
final class WatchedPasses {
    private let thread: RunLoopThread
    private let monitor: StallMonitor?
    private let recorder: LoopRecorder?

    init(isWatched: Bool = false, isRecorded: Bool = false) throws {
        thread = try RunLoopThread()
        try thread.run { try OurLoop(mode: "default").addSource1(cb_event()) }
        recorder = isRecorded ? try LoopRecorder(thread.loop) : nil
        monitor = isWatched ? try StallMonitor(thread.loop) { stall in print(stall) } : nil
    }

    func nanosecondsAPass(_ count: Int) throws -> Double {
        try thread.run { try OurLoop(mode: "default").nanosecondsAPass(count) }
    }
}
