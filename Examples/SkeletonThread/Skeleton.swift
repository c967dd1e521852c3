import RunLoops
import Synchronization

final class Skeleton: Sendable {
    /// The thread's own flag. `stop()` alone would not do: between two runs it does nothing.
    private let mustExit = Atomic(false)
    /// Ends the run in progress, or else the next one, so that the thread looks at its flag. It also keeps the mode from
    /// being empty, when a run would end at once.
    private let exitRequest = ThreadRunLoop.Source0(label: "exit request") {}

    /// What the thread does.
    func main() {
        let loop = ThreadRunLoop.current
        print("Thread: I set up my loop: a timer, and a source through which I am told to exit.")
        _ = try? loop.add(exitRequest)
        beat(3, on: loop) { self.giveWork(to: loop) }

        var isDone = false
        repeat {
            guard let result = try? loop.runInMode(.default, seconds: 10, returnAfterSourceHandled: true) else { break }
            switch result {
            case .finished, .stopped: isDone = true
            case .handledSource, .timedOut: isDone = mustExit.load(ordering: .acquiring)
            }
            print("Thread: my run has returned (\(result)). \(isDone ? "I am to exit." : "My flag is down: I run on.")")
        } while !isDone

        print("Thread: I clean up.")
        exitRequest.invalidate()
        ThreadRunLoop.main.stop()
    }

    /// Has the thread end. Any thread may call it.
    func exit(_ loop: ThreadRunLoop) {
        mustExit.store(true, ordering: .releasing)
        // A signal does not wake a loop that sleeps.
        exitRequest.signal()
        loop.wakeUp()
    }

    /// Has a timer fire so often; then it is main's turn.
    private func beat(_ count: Int, on loop: ThreadRunLoop, then next: @escaping @Sendable () -> Void) {
        var beats = 0
        loop.addTimer(after: .milliseconds(10), repeats: true) { timer in
            beats += 1
            print("Thread: beat \(beats) of \(count).\(beats == 1 ? " A timer does not make the run return." : "")")
            guard beats == count else { return }
            timer.invalidate()
            try? ThreadRunLoop.main.perform(next)
        }
    }

    private func giveWork(to loop: ThreadRunLoop) {
        print("Main: I give the thread a piece of work.")
        // With an order it is a source, and the run returns after it.
        _ = try? loop.perform(order: 0) {
            print("Thread: the work is to beat once more.")
            self.beat(1, on: loop) {
                print("Main: I tell the thread to exit.")
                self.exit(loop)
            }
        }
    }
}
