import Glibc
import RunLoops
import TestSupport

@testable import Ports

// The registry in a process that has no descriptor left.

private func withoutDescriptors<R>(but free: Int = 0, _ body: () throws -> R) rethrows -> R {
    var hoard: [Int32] = []
    while case let taken = open("/dev/null", O_RDONLY | O_CLOEXEC), taken >= 0 { hoard.append(taken) }
    for taken in hoard.suffix(free) { close(taken) }
    hoard.removeLast(free)
    defer { for taken in hoard { close(taken) } }
    return try body()
}

/// Asks servers in directories of their own, which are removed.
func askInManyDirectories() throws -> Never {
    let thread = try RunLoopThread()
    func visit() throws {
        let folder = TemporaryFolder()
        let server = try LocalMessagePort(
            name: "here", nameServer: PortRuntime(directory: folder.path).nameServer
        ) { _, data in data }
        try server.schedule(in: thread.loop)
        let remote = try RemoteMessagePort(name: "here", nameServer: PortNameServer(directory: folder.path))
        guard try remote.request(id: 1, [7]) == [7] else { fail("no answer") }
        let answered = Latch()
        Task {
            _ = try await remote.request(id: 1, [7])
            answered.open()
        }
        check(answered.wait(until: .now + .seconds(20)), "no answer for a task")
        server.invalidate()
    }
    for _ in 0..<20 { try visit() }
    let before = openDescriptors()
    for _ in 0..<40 { try visit() }
    // libzmq's own thread gives them back.
    check(
        waitUntil(before: .now + .seconds(20)) { openDescriptors() <= before + 10 },
        "\(before) descriptors have become \(openDescriptors())")
    exit(0)
}

/// A request whose asker has no descriptor to wait with is not sent.
func askWithoutDescriptors() throws -> Never {
    let handled = Shared(0)
    let server = try LocalMessagePort { _, data in
        handled.withLock { $0 += 1 }
        return data
    }
    let thread = try RunLoopThread()
    try server.schedule(in: thread.loop)
    let remote = RemoteMessagePort(server.sendRight)
    guard try remote.request(id: 1, [7]) == [7] else { fail("no answer") }
    var (answered, failures) = (1, 0)
    for free in 0..<16 {
        // Each thread has a loop of its own.
        let isAnswered = withoutDescriptors(but: free) {
            Helper { Result { try remote.request(id: 1, [7]) } }.join()
        }
        switch isAnswered {
        case .success(let reply):
            check(reply == [7], "another reply")
            answered += 1
        case .failure(let error as PortError):
            guard case .outOfDescriptors = error else { fail("\(error)") }
            failures += 1
        case .failure(let error): fail("\(error)")
        }
    }
    check((1..<16).contains(failures), "\(failures) failures")
    // Handled last.
    guard try remote.request(id: 1, [7]) == [7] else { fail("no answer") }
    let count = handled.withLock { $0 }
    check(count == answered + 1, "\(count) requests were handled, and \(answered + 1) answered")
    exit(0)
}

/// A process that may open no more files, as in a sandbox, waits as long as it should, and is woken.
func waitWithFewDescriptors() throws -> Never {
    let (port, early, full) = (try MachPort(), try MachPort(), try MachPort(queueLimit: 1))
    let thread = try RunLoopThread()
    for used in [port, early] {
        try used.sendRight.send(MachPort.Message(id: 1))
        _ = try used.receive(before: .now + .seconds(20))
    }
    while (try? full.sendRight.send(MachPort.Message(id: 1), before: .distantPast)) != nil {}
    let other = PortRuntime(directory: PortNameServer.shared.path)
    let far = try MachPort(queueLimit: 1, nameServer: other.nameServer)
    try other.nameServer.register(far, name: "far")
    let right = try PortNameServer.shared.port(forName: "far")
    try right.send(MachPort.Message(id: 1), before: .now + .seconds(20))
    while (try? right.send(MachPort.Message(id: 1), before: .now + .milliseconds(100))) != nil {}
    // libdispatch needs descriptors for its first task.
    let (first, task) = (Latch(), Latch())
    Task { first.open() }
    check(first.wait(until: .now + .seconds(20)), "no task")
    // A thread that waits since before the limit.
    let earlier = Helper { Result { try early.receive(before: .distantFuture).id } }
    check(waitUntil(before: .now + .seconds(20)) { early.receiver.takers.look.waiters.count == 1 }, "no wait")
    var limit = rlimit(rlim_cur: 1, rlim_max: 1)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    // Wakes the thread, which then finds nothing.
    early.setHandler(nil)
    check(earlier.value(before: .now + .milliseconds(100)) == nil, "the earlier wait has ended")
    try early.sendRight.send(MachPort.Message(id: 5))
    check(try earlier.value(before: .now + .seconds(20))?.get() == 5, "the earlier wait got no message")
    earlier.join()
    let waits: [(name: String, wait: () throws -> Void, end: @Sendable () throws -> Void)] = [
        (
            "receive", { _ = try port.receive(before: .now + .seconds(20)) },
            { try port.sendRight.send(MachPort.Message(id: 2)) }
        ),
        (
            "send", { try full.sendRight.send(MachPort.Message(id: 2), before: .now + .seconds(20)) },
            { _ = try full.receive(before: .distantPast) }
        ),
    ]
    for (name, wait, end) in waits {
        let began = ContinuousClock.now
        try thread.loop.add(ThreadRunLoop.Timer(after: .milliseconds(100)) { _ in try? end() })
        try wait()
        check(began.duration(to: .now) > .milliseconds(90), "\(name) has not waited")
    }
    Task {
        try await right.send(MachPort.Message(id: 3), before: .now + .seconds(20))
        task.open()
    }
    // Longer than a sender waits before it looks whether its connection is lost.
    try thread.loop.add(
        ThreadRunLoop.Timer(after: .milliseconds(1500)) { _ in
            while (try? far.receive(before: .now + .milliseconds(100))) != nil {}
        })
    try right.send(MachPort.Message(id: 2), before: .now + .seconds(20))
    check(task.wait(until: .now + .seconds(20)), "a task's message was not sent")
    let began = ContinuousClock.now
    check((try? port.receive(before: began + .milliseconds(100))) == nil, "a message")
    check(began.duration(to: .now) > .milliseconds(90), "the wait has ended before its time")
    exit(0)
}

/// A process that cannot look at its name's entry does not remove it.
func keepNameWithoutDescriptors() throws -> Never {
    let port = try MachPort()
    let names = PortNameServer.shared
    try names.register(port, name: "kept")
    let directory = try names.registryDirectory()
    let (folder, aside) = (names.path + "/names/kept", names.path + "/names/aside")
    let entry = folder + "/" + port.id.file
    withoutDescriptors {
        // As if somebody had removed the entry, who puts it back at once.
        check(rename(folder, aside) == 0 && rename(aside, folder) == 0, "cannot be moved")
        check(!waitUntil(before: .now + .milliseconds(500)) { access(entry, F_OK) != 0 }, "the entry is removed")
        do throws(PortError) {
            try directory.renew("kept")
            fail("renewed")
        } catch {
            guard case .directory(_, _, EMFILE) = error else { fail("\(error)") }
        }
        check(access(entry, F_OK) == 0, "the entry is given up")
    }
    try directory.renew("kept")
    guard try names.port(forName: "kept") == port.sendRight else { fail("the name is lost") }
    exit(0)
}

/// A watch reports no name as gone that it cannot read, and looks again later; whoever asks for names is told.
func watchWithoutDescriptors() throws -> Never {
    let names = PortNameServer.shared
    let watch = try PortNameWatch(names)
    func next(before deadline: ContinuousClock.Instant) throws -> PortNameWatch.Change? {
        try watch.next(before: deadline)
    }
    try withoutDescriptors {
        guard try next(before: .now + .milliseconds(200)) == nil else { fail("a change") }
        let attempts: [() throws -> Void] = [
            { _ = try names.names() }, { _ = try names.registrations() }, { _ = try names.sweep() },
        ]
        for attempt in attempts {
            do {
                try attempt()
                fail("no error")
            } catch let error as PortError {
                guard error == .directory(names.path + "/names", call: "open", errno: EMFILE) else { fail("\(error)") }
            }
        }
    }
    guard case .came(let test)? = try next(before: .now + .seconds(20)), test.name == "test" else { fail("not come") }
    try withoutDescriptors {
        check(mkdir(names.path + "/names/empty", 0o700) == 0, "no folder")
        if let change = try next(before: .now + .milliseconds(200)) { fail("\(change)") }
    }
    if let change = try next(before: .now + .milliseconds(300)) { fail("\(change)") }
    exit(0)
}

/// Nobody may read the names for a while.
func watchUnreadableNames() throws -> Never {
    // Root may read everything.
    if geteuid() == 0 {
        guard setgroups(0, nil) == 0, setgid(65534) == 0, setuid(65534) == 0 else { fail("still root") }
    }
    do {
        let folder = TemporaryFolder()
        let names = PortNameServer(directory: folder.path)
        let port = try MachPort(nameServer: names)
        try names.register(port, name: "known")
        let watch = try PortNameWatch(names)
        guard case .came? = try watch.next(before: .now + .seconds(20)) else { fail("not come") }
        let path = folder.path + "/names"
        check(chmod(path, 0) == 0, "cannot be closed")
        // Of a port that ends, a watch cannot know whether it had a name.
        try MachPort(nameServer: names).invalidate()
        do throws(PortError) {
            let change = try watch.next(before: .now + .seconds(20))
            fail("\(String(describing: change))")
        } catch {
            guard error == .directory(path, call: "open", errno: EACCES) else { fail("\(error)") }
        }
        check(chmod(path, 0o700) == 0, "cannot be opened")
        try names.register(port, name: "new")
        guard case .came(let new)? = try watch.next(before: .now + .seconds(20)), new.name == "new" else {
            fail("the new name has not come")
        }
    }
    exit(0)
}
