import Ports
import RunLoops

extension OneShot {
    /// Suspends until the value is set by something that a worker does, this process has heard the worker for some time, or
    /// the end of the task.
    nonisolated(nonsending) func wait(within time: Duration, of worker: WorkerProcess) async -> Value? {
        var patience = Patience(time, from: ContinuousClock.now)
        while true {
            if let value = await wait(until: patience.nextLook) { return value }
            await worker.caughtUp().wait()
            if Task.isCancelled || patience.isOver(at: .now) { return value }
        }
    }

    /// Blocks the thread as the form that suspends does.
    func block(within time: Duration, of worker: WorkerProcess) -> Value? {
        var patience = Patience(time, from: ContinuousClock.now)
        while true {
            if let value = block(until: patience.nextLook) { return value }
            worker.caughtUp().block()
            if patience.isOver(at: .now) { return value }
        }
    }
}
