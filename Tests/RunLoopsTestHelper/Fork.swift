import Glibc
import RunLoops

/// A forked child is refused the loops of its parent, who notices nothing of what it tries.
func forkWithLoops() throws {
    let loop = ThreadRunLoop.current
    let thread = try RunLoopThread()
    var ends: [Int32] = [-1, -1]
    check(pipe(&ends) == 0, "no pipe")
    let (reader, writer) = (ends[0], ends[1])
    var isRead = false
    let source = ThreadRunLoop.Source1.descriptor(
        reader,
        handler: ThreadRunLoop.local { _, _ in
            var byte: UInt8 = 0
            _ = read(reader, &byte, 1)
            isRead = true
            ThreadRunLoop.current.stop()
        })
    try loop.add(source)
    var fired = 0
    let timer = loop.addTimer(after: .milliseconds(50)) { _ in fired += 1 }
    try loop.runInMode(seconds: 0)

    let child = fork()
    check(child >= 0, "no child")
    if child == 0 {
        alarm(20)
        let isRefused =
            refuses { try loop.run() } && refuses { try loop.runInMode(seconds: 0) }
            && refuses { try loop.add(ThreadRunLoop.Source1.descriptor(reader) { _, _ in }) }
            && refuses { _ = try RunLoopThread() }
        loop.remove(source)
        source.invalidate()
        timer.nextFireDate = .distantFuture
        timer.invalidate()
        thread.loop.perform { fail("performed a child's block") }
        thread.loop.wakeUp()
        thread.stop()
        loop.stop()
        _exit(isRefused ? 0 : 1)
    }
    var status: Int32 = 0
    check(waitpid(child, &status, 0) == child && status == 0, "the child ended with \(status)")

    // All is as it was.
    var byte: UInt8 = 1
    check(write(writer, &byte, 1) == 1, "nothing written")
    try loop.runInMode(seconds: 20)
    check(isRead, "the descriptor is not watched any more")
    while fired == 0 { try loop.runInMode(seconds: 0.02) }
    try thread.run {}
    check(!thread.join(before: .now), "the thread was stopped")
    try forkInCallout(loop)
}

/// A child that a callout makes ends its parent's run for itself.
private func forkInCallout(_ loop: ThreadRunLoop) throws {
    var (child, ticks): (pid_t, Int) = (-1, 0)
    loop.addTimer(after: .milliseconds(1), repeats: true) { _ in
        ticks += 1
        if ticks == 3 {
            child = fork()
            if child == 0 { alarm(20) }
        }
        if ticks == 100 { loop.stop() }
    }
    let isRefused = refuses { try loop.runInMode(seconds: 20) }
    if child == 0 { _exit(isRefused && ticks == 3 ? 0 : 1) }
    check(!isRefused && ticks == 100, "the parent's timer has fired \(ticks) times")
    var status: Int32 = 0
    check(waitpid(child, &status, 0) == child && status == 0, "the child ended with \(status)")
}

private func refuses(_ body: () throws -> Void) -> Bool {
    do {
        try body()
        return false
    } catch {
        return error as? RunLoopError == .forked && "\(error)".contains("exec")
    }
}
