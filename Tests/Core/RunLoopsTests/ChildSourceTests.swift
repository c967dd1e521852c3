import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct ChildSourceTests {
    @Test(arguments: [("exit 7", ThreadRunLoop.ExitStatus.exited(7)), ("kill -9 $$", .signaled(SIGKILL))])
    func `how a child ends is told once`(_ script: String, _ expected: ThreadRunLoop.ExitStatus) throws {
        let (statuses, result) = onThread {
            let (loop, statuses) = (ThreadRunLoop.current, Shared<[ThreadRunLoop.ExitStatus]>([]))
            add(
                child(of: spawn(["/bin/sh", "-c", script])) { status in statuses.withLock { $0.append(status) } },
                to: loop)
            return (statuses, run(loop, seconds: 20))
        }
        #expect(statuses.withLock { $0 } == [expected])
        #expect(result == .finished)
    }

    @Test func `a child that somebody else collects is told of too`() {
        let (status, result) = onThread {
            let (loop, statuses, pid) = (
                ThreadRunLoop.current, Shared<[ThreadRunLoop.ExitStatus]>([]), spawn(["/bin/sh", "-c", "exit 3"])
            )
            add(child(of: pid) { status in statuses.withLock { $0.append(status) } }, to: loop)
            waitpid(pid, nil, 0)
            let result = run(loop, seconds: 20)
            return (statuses.withLock { $0 }, result)
        }
        #expect(status == [.unknown])
        #expect(result == .finished)
    }

    @Test func `what is no child is an error`() {
        for pid in [getpid(), 1, 0, -5] {
            #expect(throws: RunLoopError.notAChild(pid)) { try ThreadRunLoop.Source1.child(pid) { _ in } }
        }
    }
}

private func child(of pid: pid_t, _ handler: @escaping @Sendable (ThreadRunLoop.ExitStatus) -> Void)
    -> ThreadRunLoop.Source1
{
    do { return try .child(pid, handler: handler) } catch { preconditionFailure("\(error)") }
}
