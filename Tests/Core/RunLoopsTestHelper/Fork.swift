import Glibc
import RunLoops
import Synchronization
import TestSupport

/// A forked child is refused the loops of its parent, who notices nothing of what it tries.
func forkWithLoops() throws {
    let loop = ThreadRunLoop.current
    let thread = try RunLoopThread()
    var ends: [Int32] = [-1, -1]
    check(pipe(&ends) == 0, "no pipe")
    let (reader, writer) = (ends[0], ends[1])
    // Swift's runtime has locks for what is used first. A child waits for ever for one that a thread held at the fork.
    try thread.run {}
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
    let driven = try ThreadRunLoop.DrivenRun(mode: "driven")
    check(driven.prepare() == nil, "a driven run does not sleep")

    let child = fork()
    check(child >= 0, "no child")
    if child == 0 {
        alarm(20)
        let isRefused =
            driven.prepare() == .zero && driven.dispatch() == .stopped
            && refuses { _ = try ThreadRunLoop.DrivenRun() } && refuses { try loop.run() }
            && refuses { try loop.runInMode(seconds: 0) }
            && refuses { try loop.add(ThreadRunLoop.Source1.descriptor(reader) { _, _ in }) }
            && refuses { _ = try RunLoopThread() } && refuses { _ = try ThreadRunLoop.Source1.signal(SIGUSR1) { _ in } }
            && refuses { _ = try SignalSequence([SIGUSR1]) }
            && refuses { _ = try ThreadRunLoop.Source1.file("/") { _ in } }
            && refuses { _ = try ThreadRunLoop.Source1.child(getppid()) { _ in } }
            && refuses { try loop.perform { fail("performed a child's block") } }
            && refuses { try loop.add(ThreadRunLoop.Source0 {}) }
            && refuses { try loop.perform(order: 0) { fail("performed a child's request") } }
        loop.remove(source)
        source.invalidate()
        timer.nextFireDate = .distantFuture
        timer.invalidate()
        try? thread.loop.perform { fail("performed a child's block") }
        thread.loop.wakeUp()
        thread.stop()
        loop.stop()
        _exit(isRefused ? 0 : 1)
    }
    expectSuccess(of: child)

    // All is as it was.
    check(driven.dispatch() == nil && driven.prepare() == nil, "the driven run has ended")
    driven.stop()
    var byte: UInt8 = 1
    check(write(writer, &byte, 1) == 1, "nothing written")
    try loop.runInMode(seconds: 20)
    check(isRead, "the descriptor is not watched any more")
    while fired == 0 { try loop.runInMode(seconds: 0.02) }
    try thread.run {}
    check(!thread.join(before: .now), "the thread was stopped")
    // With the thread sanitizer, each use of a global takes a lock of Swift's runtime, which no child may wait for.
    #if !THREAD_SANITIZER
        try forkWhileOthersLook(loop)
    #endif
    try forkInCallout(loop)
    try forkBeforeTimers(loop)
    for kind in ["blocks", "requests", "timers", "observers", "changes"] { try forkAmongOthers(loop, kind) }
    // The thread sanitizer stands between the kernel and a process's signals.
    #if !THREAD_SANITIZER
        for signal in [SIGTERM, SIGUSR2] { try signalAChild(loop, signal) }
    #endif
}

/// A child waits for no lock that another thread of its parent's held.
private func forkWhileOthersLook(_ loop: ThreadRunLoop) throws {
    let mode = ThreadRunLoop.Mode("looked at")
    let (source, timer) = (ThreadRunLoop.Source0 {}, ThreadRunLoop.Timer(after: .seconds(1000)) { _ in })
    let observer = ThreadRunLoop.Observer(.entry) { _, _ in }
    var ends: [Int32] = [-1, -1]
    check(pipe(&ends) == 0, "no pipe")
    let descriptor = ThreadRunLoop.Source1.descriptor(ends[0]) { _, _ in }
    try loop.add(source, forMode: mode)
    try loop.add(timer, forMode: mode)
    try loop.add(observer, forMode: mode)
    try loop.add(descriptor, forMode: mode)
    let looks: [@Sendable () -> Bool] = [
        { loop.currentMode == nil },
        { loop.allModes == [.default] },
        { loop.nextTimerFireDate(forMode: mode) == nil },
        { !loop.contains(source, forMode: mode) && !loop.contains(timer, forMode: mode) },
        {
            source.signal()
            return !source.isValid
        },
        {
            timer.tolerance = .seconds(1)
            return timer.tolerance == .zero && timer.nextFireDate == .distantFuture && !timer.isValid
        },
        { !observer.isValid },
        { !descriptor.isValid },
    ]
    let isOver = Atomic(false)
    let lookers = try looks.map { look in
        let thread = try RunLoopThread()
        try thread.run { _ = look() }
        try thread.loop.perform { while !isOver.load(ordering: .relaxed) { _ = look() } }
        return thread
    }
    for round in 0..<20 {
        let child = fork()
        if child == 0 {
            alarm(20)
            let isRefused = looks.allSatisfy { $0() }
            source.invalidate()
            timer.invalidate()
            observer.invalidate()
            descriptor.invalidate()
            descriptor.raise()
            _exit(isRefused ? 0 : 1)
        }
        check(child > 0, "no child in round \(round)")
        expectSuccess(of: child)
    }
    isOver.store(true, ordering: .relaxed)
    for thread in lookers {
        thread.stop()
        check(thread.join(before: .now + .seconds(20)), "a looker goes on")
    }
    check(source.isValid && timer.isValid && observer.isValid && descriptor.isValid, "the parent's items are invalid")
    check(loop.contains(source, forMode: mode) && source.isSignaled, "the parent's loop has lost its items")
    source.invalidate()
    timer.invalidate()
    observer.invalidate()
    descriptor.invalidate()
    for end in ends { close(end) }
}

/// A child that a callout makes calls nothing else that its parent's pass is about to call.
private func forkAmongOthers(_ loop: ThreadRunLoop, _ kind: String) throws {
    let mode = ThreadRunLoop.Mode(kind)
    let idle = ThreadRunLoop.Source0 {}
    try loop.add(idle, forMode: mode)
    var (child, calls): (pid_t, Int) = (-1, 0)
    let call = ThreadRunLoop.local {
        check(child != 0, "\(kind) of the parent's were called in the child")
        calls += 1
        if calls == 1 { child = fork() }
        if child == 0 { alarm(20) }
    }
    guard let made = mkdtemp(strdup("/tmp/fork.XXXXXX")) else { fail("no directory") }
    let path = String(cString: made)
    switch kind {
    case "blocks": for _ in 0..<3 { try loop.perform(inModes: [mode], call) }
    case "requests": for _ in 0..<3 { try loop.perform(order: 0, inModes: [mode], call) }
    case "timers": for _ in 0..<3 { try loop.perform(after: .zero, inModes: [mode], call) }
    case "observers": for _ in 0..<3 { try loop.add(.init(.entry) { _, _ in call() }, forMode: mode) }
    default:
        try loop.add(.file(path, .entryCreated) { change in if change.name != nil { call() } }, forMode: mode)
        for number in 0..<3 { close(open("\(path)/\(number)", O_CREAT | O_WRONLY, 0o600)) }
    }
    let isRefused = refuses { try loop.runInMode(mode, seconds: 0) }
    if child == 0 { _exit(isRefused && calls == 1 ? 0 : 1) }
    check(!isRefused && calls == 3, "\(calls) \(kind) were called")
    for number in 0..<3 { unlink("\(path)/\(number)") }
    rmdir(path)
    expectSuccess(of: child)
}

/// A signal to a child is the child's: its action is the former one, and the parent's source is not told.
private func signalAChild(_ loop: ThreadRunLoop, _ number: Int32) throws {
    // Ignored where it is so: the child goes on.
    if number == SIGUSR2 { signal(number, SIG_IGN) }
    var told = 0
    let source = try ThreadRunLoop.Source1.signal(
        number, handler: ThreadRunLoop.local { (count: Int) in told += count })
    let mode = ThreadRunLoop.Mode("signal \(number)")
    try loop.add(source, forMode: mode)
    let child = fork()
    if child == 0 {
        alarm(20)
        for _ in 0..<3 { kill(getpid(), number) }
        _exit(0)
    }
    var status: Int32 = 0
    check(waitpid(child, &status, 0) == child, "no child")
    check(status == (number == SIGUSR2 ? 0 : number), "the child has ended with \(status)")
    try loop.runInMode(mode, seconds: 0)
    check(told == 0, "the parent was told of a child's signal \(number)")
    kill(getpid(), number)
    try loop.runInMode(mode, seconds: 20, returnAfterSourceHandled: true)
    check(told == 1, "the parent was told \(told) times of its own signal \(number)")
    source.invalidate()
}

private func expectSuccess(of child: pid_t) {
    var status: Int32 = 0
    check(waitpid(child, &status, 0) == child && status == 0, "the child ended with \(status)")
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
    expectSuccess(of: child)
}

/// A child that an observer makes between the end of the sleep and the timers does not set the kernel's timer, which is
/// its parent's.
private func forkBeforeTimers(_ loop: ThreadRunLoop) throws {
    let mode = ThreadRunLoop.Mode("before timers")
    var ends: [Int32] = [-1, -1]
    check(pipe(&ends) == 0, "no pipe")
    var (child, hasFired): (pid_t, Bool) = (-1, false)
    var byte: UInt8 = 1
    loop.addObserver(.afterWaiting, repeats: false, forMode: mode) { _, _ in
        child = fork()
        guard child == 0 else { return }
        alarm(20)
        // It goes on when its parent has set the kernel's timer anew.
        _ = read(ends[0], &byte, 1)
    }
    loop.addTimer(after: .milliseconds(1), forMode: mode) { _ in
        loop.addTimer(after: .milliseconds(300), forMode: mode) { _ in hasFired = true }
        _ = write(ends[1], &byte, 1)
    }
    let isRefused = refuses { try loop.runInMode(mode, seconds: 10) }
    if child == 0 { _exit(isRefused ? 0 : 1) }
    check(hasFired, "the child has set its parent's timer")
    expectSuccess(of: child)
    for end in ends { close(end) }
}

private func refuses(_ body: () throws -> Void) -> Bool {
    do {
        try body()
        return false
    } catch {
        return error as? RunLoopError == .forked && "\(error)".contains("exec")
    }
}
