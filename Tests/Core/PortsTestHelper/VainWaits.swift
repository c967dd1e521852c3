import Glibc
import Ports
import PortsInspection
import RunLoops
import TestSupport

private actor Outcome {
    private(set) var wrong: Set<String> = []
    private(set) var count = 0

    func note(_ error: String?) {
        count += 1
        if let error { wrong.insert(error) }
    }
}

/// What tasks wait for in vain, and what the error says.
private struct VainWait {
    let error: String
    let wait: @Sendable (_ number: Int, _ deadline: ContinuousClock.Instant) async throws -> Void
}

/// Waits in many tasks at once for something that does not come: other tasks go on meanwhile, and no thread is made for
/// it. Reports the longest pause of another task, in milliseconds, how many threads there were at most, and the turns that
/// the other task had.
func waitInVain(_ what: String, forOwnerOf name: String, tasks count: Int) throws -> Never {
    let tester = try test()
    let vain = try vainWait(what, name)
    Task.detached {
        let outcome = Outcome()
        let deadline = ContinuousClock.now + .seconds(3)
        for number in 0..<count {
            Task.detached {
                do {
                    try await vain.wait(number, deadline)
                    await outcome.note("it came")
                } catch {
                    await outcome.note("\(error)".contains(vain.error) ? nil : "\(error)")
                }
            }
        }
        var (longest, threads, turns) = (Duration.zero, 0, 0)
        while await outcome.count < count {
            let begin = ContinuousClock.now
            try? await Task.sleep(for: .milliseconds(20))
            longest = max(longest, begin.duration(to: .now))
            threads = max(threads, liveThreads())
            turns += 1
        }
        guard await outcome.wrong.isEmpty else { fail("\(await outcome.wrong)") }
        let figures = [UInt32(longest / .milliseconds(1)), UInt32(threads), UInt32(turns)]
        try await tester.send(
            MachPort.Message(id: 2, [.bytes(figures.flatMap { number in withUnsafeBytes(of: number) { Array($0) } })]))
        exit(0)
    }
    while true { pause() }
}

private struct Nothing: Error {}

/// The worker that ends with this process.
nonisolated(unsafe) private var stopped: pid_t = 0

/// The wait, whose other process is stopped before the first task begins.
private func vainWait(_ what: String, _ name: String) throws -> VainWait {
    let names = PortNameServer.shared
    switch what {
    case "lookup":
        stop(try owner(of: name))
        return VainWait(error: "does not answer in time") { number, deadline in
            if number % 2 == 0 {
                _ = try await names.port(forName: name, before: deadline)
            } else {
                _ = try await RemoteMessagePort(name: name, before: deadline)
            }
        }

    case "ping", "statistics", "bytes":
        let right = try connectedRight(name)
        stop(try owner(of: name))
        if what == "ping" { return VainWait(error: "nothing arrived") { _ = try await right.ping(before: $1) } }
        if what == "statistics" {
            return VainWait(error: "nothing arrived") { _ = try await right.statistics(before: $1) }
        }
        return VainWait(error: "before the deadline") { _, deadline in
            let bytes = [UInt8](repeating: 1, count: 1 << 17)
            while true { try await right.send(bytes: bytes.span.bytes, before: deadline) }
        }

    case "receive":
        return VainWait(error: "nothing arrived") { _ = try await MachPort().receive(before: $1) }

    case "request":
        let right = try connectedRight(name)
        stop(try owner(of: name))
        return VainWait(error: "before the deadline") { _, deadline in
            _ = try await RemoteMessagePort(right).request(id: 1, timeout: ContinuousClock.now.duration(to: deadline))
        }

    case "finish":
        let (thread, kept, taken) = (try RunLoopThread(), Kept(), Latch())
        let server = try LocalMessagePort(requestHandler: { request in
            kept.right = request.replyRight
            taken.open()
        })
        try server.schedule(in: thread.loop)
        Task.detached { try await RemoteMessagePort(server.sendRight).request(id: 1, timeout: .seconds(60)) }
        check(taken.wait(until: .now + .seconds(30)), "nobody asks")
        return VainWait(error: "Nothing") { _, deadline in
            if !(await server.finish(before: deadline)) { throw Nothing() }
            withExtendedLifetime((thread, kept)) {}
        }

    case "named":
        let named = NamedMessagePort("nobody")
        return VainWait(error: "nobody") { number, deadline in
            let timeout = ContinuousClock.now.duration(to: deadline)
            if number % 2 == 0 {
                _ = try await named.port(before: deadline)
            } else {
                _ = try await named.request(MachPort.Message(), timeout: timeout)
            }
        }

    case "name":
        return VainWait(error: "nobody") { _ = try await names.waitForPort(forName: "nobody", before: $1) }

    case "end":
        let right = try connectedRight(name)
        stop(try owner(of: name))
        return VainWait(error: name) { _, deadline in
            try await names.waitForEnd(ofName: name, before: deadline)
            withExtendedLifetime(right) {}
        }

    case "watch":
        let watch = try PortNameWatch(names)
        while try watch.next(before: .now + .milliseconds(50)) != nil {}
        stop(try owner(of: name))
        return VainWait(error: "Nothing") { if try await watch.next(before: $1) == nil { throw Nothing() } }

    case "check-in":
        setenv("PORTS_CHECK_IN", "1 \(name)", 1)
        stop(try owner(of: name))
        return VainWait(error: "does not answer in time") { _ = try await CheckIn.fromEnvironment(before: $1) }

    case "answer":
        setenv("PORTS_CHECK_IN", "1 \(name)", 1)
        let (right, checkIn) = (try connectedRight(name), try CheckIn.fromEnvironment())
        stop(try owner(of: name))
        return VainWait(error: "before the deadline") { _, deadline in
            _ = try await checkIn.complete(with: MachPort(), before: deadline)
            withExtendedLifetime(right) {}
        }

    case "worker", "exit":
        let port = try MachPort()
        let worker = try WorkerProcess.start(.init("/bin/sleep", ["60"]), port: port.sendRight)
        stop(worker.pid)
        stopped = worker.pid
        atexit { kill(stopped, SIGKILL) }
        if what == "worker" {
            return VainWait(error: "did not check in before the deadline") { _ = try await worker.checkIn(before: $1) }
        }
        return VainWait(error: "Nothing") { if try await worker.waitForExit(before: $1) == nil { throw Nothing() } }

    case "launch":
        let port = try MachPort()
        return VainWait(error: "did not check in before the deadline") { _, deadline in
            _ = try await WorkerProcess.launch(.init("/bin/sleep", ["60"]), port: port.sendRight, before: deadline)
        }

    case "thread":
        let port = try MachPort()
        let worker = try WorkerThread.start(port: port.sendRight) { _ in while true { pause() } }
        return VainWait(error: "did not check in before the deadline") { _ = try await worker.checkIn(before: $1) }

    default: fail("unknown wait")
    }
}

private func connectedRight(_ name: String) throws -> MachPort.SendRight {
    let right = try PortNameServer.shared.port(forName: name)
    try right.send(MachPort.Message(), before: .now + .seconds(30))
    return right
}

private func owner(of name: String) throws -> pid_t {
    guard let pid = try PortNameServer.shared.registration(forName: name)?.pid else { fail("nobody has the name") }
    return pid
}

/// Stops a process, and returns when none of its threads runs.
private func stop(_ pid: pid_t) {
    kill(pid, SIGSTOP)
    let isStopped = waitUntil {
        (entries(of: "/proc/\(pid)/task") ?? []).allSatisfy {
            line(in: "/proc/\(pid)/task/\($0)/stat")?.contains(") T") == true
        }
    }
    check(isStopped, "process \(pid) is not stopped")
}
