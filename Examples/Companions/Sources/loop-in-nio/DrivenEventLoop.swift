import Glibc
import NIOCore
import RunLoops

/// Has the thread of a SwiftNIO event loop run the thread's ThreadRunLoop. The future succeeds when the loop is stopped.
///
/// SwiftNIO polls only the descriptors of its own channels, so a thread of its own waits for the loop's descriptor.
func drive(on eventLoop: any EventLoop, start: @escaping @Sendable (ThreadRunLoop) throws -> Void) throws
    -> EventLoopFuture<Void>
{
    let stopped = eventLoop.makePromise(of: Void.self)
    let watcher = try RunLoopThread(name: "watcher")
    let run = eventLoop.submit {
        let run = try ThreadRunLoop.DrivenRun()
        try start(run.loop)
        return NIOLoopBound(run, eventLoop: eventLoop)
    }
    run.cascadeFailure(to: stopped)
    run.whenSuccess { run in
        let descriptor = run.value.descriptor
        try? watcher.loop.perform {
            var watched = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            var state = State.isDue
            while state != .isStopped {
                if state == .sleeps { poll(&watched, 1, -1) }
                state = (try? eventLoop.submit { goOn(run.value) }.wait()) ?? .isStopped
            }
            stopped.succeed()
        }
    }
    stopped.futureResult.whenComplete { _ in watcher.stop() }
    return stopped.futureResult
}

private enum State { case sleeps, isDue, isStopped }

/// Some passes at once, so that not each costs a hop between the threads.
private func goOn(_ run: ThreadRunLoop.DrivenRun) -> State {
    for _ in 0..<16 {
        if run.dispatch() != nil { return .isStopped }
        if run.prepare() != .zero { return .sleeps }
    }
    return .isDue
}
