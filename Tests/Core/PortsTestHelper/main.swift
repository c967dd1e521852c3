import Glibc
import Ports
import PortsInspection
import RunLoops
import TestSupport

// The other processes of the tests. Each does one thing, and reports to the port named "test".

// Nothing is left behind, also when the test ends early.
alarm(150)

func test() throws(PortError) -> MachPort.SendRight { try PortNameServer.shared.port(forName: "test") }

/// Tells the test that this process is ready, with the port to reach it at.
func report(_ port: MachPort.SendRight?) throws(PortError) {
    try test().send(MachPort.Message(id: 1, replyPort: port), before: .now + .seconds(30))
}

func runForEver() throws -> Never {
    try ThreadRunLoop.current.run()
    exit(0)
}

func run(_ command: String, _ arguments: [String]) throws -> Never {
    switch command {
    case "echo":
        let server = try LocalMessagePort(name: arguments.first) { id, data in
            if id == 99 { exit(0) }
            return data
        }
        try server.schedule(in: .current)
        try report(server.sendRight)
        try runForEver()

    case "serve":
        // Answers by name, and reports to nobody.
        let kept = Kept()
        let server = try LocalMessagePort(name: arguments.first) { request in
            switch request.id {
            case 97: kept.right = request.replyRight
            case 98: return
            case 99: exit(0)
            default: try? request.replyRight?.reply(with: request.data)
            }
        }
        try server.schedule(in: .current)
        try runForEver()

    case "serve-and-throw":
        // Answers by name with failures: one that is an answer, one that the library finds, and another error.
        let server = try LocalMessagePort(name: arguments.first)
        Task.detached {
            try await server.serve { request in
                switch request.id {
                case 1: throw RequestFailure("no such key")
                case 2: throw RequestFailure(fault: "no such request")
                default: throw PortError.unavailable(reason: "the disk is full")
                }
            }
        }
        while true { pause() }

    case "exit-ringing":
        // Ends while threads send the first messages of new ports.
        let sent = Shared(0)
        let threads = try (0..<4).map { _ in
            try RunLoopThread { _ in
                while let port = try? MachPort() {
                    try? port.sendRight.send(MachPort.Message())
                    sent.withLock { $0 += 1 }
                }
            }
        }
        waitUntil { sent.withLock { $0 } > 100 }
        withExtendedLifetime(threads) { exit(3) }

    case "own":
        // Owns a name, and never reads.
        let port = try MachPort(queueLimit: 4)
        try PortNameServer.shared.register(port, name: "owned")
        try report(port.sendRight)
        try runForEver()

    case "own-many":
        let port = try MachPort()
        for number in 0..<(Int(arguments.first ?? "") ?? 0) {
            try PortNameServer.shared.register(port, name: "many \(number)")
        }
        try report(port.sendRight)
        try runForEver()

    case "come":
        try PortNameServer.shared.register(MachPort(), name: arguments.first ?? "")
        exit(0)

    case "die-owning":
        let port = try MachPort()
        try PortNameServer.shared.register(port, name: arguments.first ?? "")
        withExtendedLifetime(port) { _ = kill(getpid(), SIGKILL) }
        fail("alive")

    case "wait-in-vain":
        try waitInVain(arguments[0], forOwnerOf: arguments[1], tasks: 100)

    case "hold":
        // The same under any name, without a report: nobody is connected to it.
        let port = try MachPort(queueLimit: 4)
        try PortNameServer.shared.register(port, name: arguments.first ?? "")
        while true { _ = withExtendedLifetime(port) { pause() } }

    case "get-stuck":
        // Never comes back from its first message.
        let port = try MachPort { _ in while true { pause() } }
        try port.schedule(in: .current)
        try PortNameServer.shared.register(port, name: arguments.first ?? "")
        try runForEver()

    case "ask-another":
        // Waits in its handler for the reply of another.
        let port = try LocalMessagePort(name: arguments[0]) { _, _ in
            try? RemoteMessagePort(name: arguments[1]).request(id: 1, timeout: .seconds(1000))
        }
        try port.schedule(in: .current)
        try runForEver()

    case "be-slow":
        // Takes its time for each message.
        let port = try MachPort(queueLimit: 500) { _ in usleep(2_000) }
        try port.schedule(in: .current)
        try PortNameServer.shared.register(port, name: arguments.first ?? "")
        try runForEver()

    case "monitor":
        let monitor = try PortMonitor(PortNameServer.shared.port(forName: arguments.first ?? ""))
        while try monitor.next() != nil {}
        exit(0)

    case "send-on":
        let right = try PortNameServer.shared.port(forName: arguments.first ?? "")
        while true { try right.send(MachPort.Message(), before: .now + .seconds(30)) }

    case "ask":
        // Asks the port named "test" with its own process id, and stays there when told so.
        let pid = withUnsafeBytes(of: getpid()) { Array($0) }
        let answer = try RemoteMessagePort(name: "test").request(id: 1, pid, timeout: .seconds(30))
        while answer == pid, arguments.first == "stay" { pause() }
        exit(answer == pid ? 0 : 71)

    case "ask-and-give-up":
        askAndGiveUp(arguments.first ?? "", Int(arguments.last ?? "") ?? 0)

    case "serve-and-tell":
        try serveAndTell(arguments[0], file: arguments[1])

    case "ask-for-ever":
        _ = try RemoteMessagePort(name: "test").request(id: 1, timeout: .seconds(1000))
        fail("answered")

    case "send":
        let right = try test()
        // The receiver may be a task that waits for one of few threads.
        try PortRuntime.shared.setFlushBound(.seconds(30))
        for number in 0..<(UInt32(arguments.first ?? "") ?? 0) {
            try right.send(MachPort.Message(id: number), before: .now + .seconds(30))
        }
        exit(0)

    case "bytes-for-ever":
        // Sends numbered messages of different sizes until it is killed.
        let right = try test()
        for number in 0 ... .max as ClosedRange<UInt32> {
            let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: Int(number) * 7919 % 3000)
            try right.send(id: number, bytes: bytes.span.bytes)
        }
        exit(0)
    case "bytes":
        // Sends a number of messages of a size, as fast as it may; then it stays, or not.
        let right = try test()
        try PortRuntime.shared.setFlushBound(.seconds(30))
        let size = Int(arguments[1]) ?? 0
        for number in 0..<(UInt32(arguments[0]) ?? 0) {
            let bytes = [UInt8](repeating: 7, count: size)
            try right.send(MachPort.Message(id: number, [.bytes(bytes)]), before: .now + .seconds(30))
        }
        if arguments.count > 2 { exit(0) }
        try runForEver()

    case "take":
        // Takes whatever comes.
        let port = try MachPort(byteLimit: Int(arguments[0])) { _ in }
        try port.schedule(in: .current)
        try PortNameServer.shared.register(port, name: "test")
        try runForEver()

    case "post":
        // Two ports: the second is passed on to the first. One: it is written to.
        let port = try MachPort { message in
            let rights = message.components.compactMap { component -> MachPort.SendRight? in
                if case .port(let right) = component { right } else { nil }
            }
            do {
                switch rights.count {
                case 2: try rights[0].send(MachPort.Message(id: 7, [.port(rights[1])]), before: .now + .seconds(30))
                case 1: try rights[0].send(MachPort.Message(id: 8, [.port(rights[0])]), before: .now + .seconds(30))
                default: fail("has got \(rights.count) rights")
                }
            } catch {
                fail("\(error)")
            }
        }
        try port.schedule(in: .current)
        try report(port.sendRight)
        try runForEver()

    case "worker":
        let mine = try MachPort { message in exit(Int32(message.id)) }
        let parent = try CheckIn.fromEnvironment().complete(with: mine)
        try mine.schedule(in: .current)
        try parent.send(MachPort.Message(id: 5, [.bytes(Array("\(arguments)".utf8))]))
        try runForEver()

    case "worker-task":
        // The same in a task.
        Task.detached {
            do {
                let mine = try MachPort()
                let parent = try await CheckIn.fromEnvironment().complete(with: mine)
                try await parent.send(MachPort.Message(id: 5))
                exit(Int32(try await mine.receive().id))
            } catch {
                fail("\(error)")
            }
        }
        while true { pause() }

    case "launch":
        // A parent of a worker, whose pid it writes.
        let worker = try WorkerProcess.launch(.init(arguments[0], Array(arguments.dropFirst())))
        print(worker.pid)
        fflush(nil)
        while true { pause() }

    case "environment":
        // A worker writes its environment: this process's, with the changes that the arguments name.
        let changes = Dictionary(uniqueKeysWithValues: arguments.map { ($0, String?.some("given")) })
        let program = WorkerProcess.Configuration("/usr/bin/env", environment: .inherit.updating(changes))
        let worker = try WorkerProcess.start(program, port: MachPort().sendRight)
        exit(worker.waitForExit() == .exited(0) ? 0 : 1)

    case "grandchild":
        // Another process wants to check in in this one's place.
        var pid: pid_t = 0
        var arguments = [strdup("/proc/self/exe"), strdup("worker"), nil]
        guard posix_spawn(&pid, "/proc/self/exe", nil, nil, &arguments, environ) == 0 else { fail("cannot spawn") }
        waitpid(pid, nil, 0)
        while true { pause() }

    case "silent":
        while true { pause() }

    case "die":
        exit(Int32(arguments.first ?? "") ?? 0)

    case "signal":
        kill(getpid(), Int32(arguments.first ?? "") ?? 0)
        while true { pause() }

    case "look":
        try look()

    case "fork-on-demand":
        try forkOnDemand()

    case "fork":
        try forkAndGoOn()

    case "fork-busy":
        try forkWhileBusy(Int(arguments.first ?? "") ?? 0)

    case "watch":
        try watchWithoutInstances()

    case "busy":
        try endWhileBusy()

    case "flood":
        try flood(UInt32(arguments.first ?? "") ?? 0, arguments.count > 1 ? UInt32(arguments[1]) : nil)

    case "doomed":
        try beDoomed(forks: arguments.first == "fork")

    case "headless":
        try serveHeadless()

    case "notice":
        try noticeEnds()

    case "churn":
        try churnNames()

    case "hoard":
        try hoard(queueLimit: Int(arguments.first ?? "") ?? 1)

    case "press":
        try press(size: Int(arguments.first ?? "") ?? 1)

    case "race":
        try race(for: arguments.first ?? "")

    case "contend":
        try contend(for: arguments.first ?? "", arguments.count > 1 ? Int(arguments[1]) ?? 1 : 1)

    case "orders":
        try endInEveryOrder(rounds: Int(arguments[0]) ?? 0, seed: UInt64(arguments[1]) ?? 0)

    case "nag":
        try nag()

    case "greet":
        try PortNameServer.shared.port(forName: "target").send(MachPort.Message(id: 9), before: .now + .seconds(30))
        exit(0)

    case "view":
        try changeView(arguments.first ?? "")

    case "mourn":
        try mourn(arguments.first ?? "")

    case "target":
        try standAsTarget(others: Int(arguments.first ?? "") ?? 0)

    case "large-names":
        try refuseLargeNames()

    case "sockets":
        try runOutOfSockets()

    case "no-descriptors":
        try goOnWithoutDescriptors()

    case "send-descriptors":
        try sendDescriptors(to: arguments[0], arguments.count > 1 ? UInt32(arguments[1]) : nil)

    case "take-descriptors":
        try takeDescriptors()

    case "take-few-descriptors":
        try takeFewDescriptors()

    case "few-descriptors":
        try waitWithFewDescriptors()

    case "ask-few-descriptors":
        try askWithoutDescriptors()

    case "many-directories":
        try askInManyDirectories()

    case "unreadable-names":
        try watchUnreadableNames()

    case "no-descriptors-own":
        try keepNameWithoutDescriptors()

    case "no-descriptors-watch":
        try watchWithoutDescriptors()

    case "full-disk":
        try registerOnFullDisk(arguments.first)

    case "intrude":
        try intrude(arguments.first ?? "", isControl: arguments.contains("control"))

    case "pose":
        try pose(arguments.first ?? "")

    case "own-slow-ports":
        try ownSlowPorts(Int(arguments.first ?? "") ?? 0)

    case "send-to-many":
        try sendToMany()

    case "come-and-go":
        try comeAndGo(Int(arguments.first ?? "") ?? 0)

    case "many":
        let numbers = arguments.compactMap { Int($0) }
        try holdManyPorts(numbers[0], connected: numbers[1])

    case "hold-port":
        try hold(arguments.first)

    case "borrow":
        try borrow()

    case "lend-on":
        try lendOn()

    case "answer-lent":
        try answerLent()

    case "lend-often":
        try lendOften(Int(arguments[0]) ?? 0)

    case "move-often":
        try moveOften(Int(arguments[0]) ?? 0)

    case "visit":
        try visit(rounds: UInt32(arguments[0]) ?? 0, fromTask: arguments[1] == "task")

    case "fill-up":
        try fillUp()

    case "no-threads":
        try goOnWithoutThreads()

    case "leave-full":
        try leaveFull()

    case "leave-bare":
        try leaveBare(
            without: arguments.first ?? "", ports: Int(arguments.dropFirst().first ?? "") ?? 0,
            count: UInt32(arguments.last ?? "") ?? 0)

    case "leave-serving":
        try leaveServing(UInt32(arguments.first ?? "") ?? 0)

    case "leave-without-threads":
        try leaveWithoutThreads()

    case "misuse-delegate":
        try handleElsewhere(arguments.first ?? "")

    case "interrupted":
        try goOnInterrupted(Int(arguments.first ?? "") ?? 0)

    case "release":
        try releaseRuntimes()

    case "spawn":
        try spawnOnDemand()

    case "replace-standard-error":
        try replaceStandardError(by: arguments.first ?? "")

    case "answer":
        try answerAndLeave(arguments.first ?? "")

    case "launch-at-first":
        // Starts a program that ends with this one, unless this one lets it go on.
        var program = WorkerProcess.Configuration("/bin/sh", ["-c", "echo $$; exec sleep 100"])
        program.standardOutput = .file(arguments[1] + "/pid")
        program.processGroup = .own
        program.endsWithLauncherAtFirst = true
        let worker = try WorkerProcess.start(program)
        if arguments[0] == "outlive" { worker.outlivesLauncher() }
        try report(nil)
        while true { pause() }

    case "without-memory":
        try runWithoutMemory(Int32(arguments[0]) ?? 0, arguments[1], Array(arguments.dropFirst(2)))

    case "in-address-space":
        try runInAddressSpace(growingBy: Int(arguments[0]) ?? 0, arguments[1], Array(arguments.dropFirst(2)))

    case "take-numbered":
        try takeNumbered(UInt32(arguments[0]) ?? 0)

    case "send-numbered":
        try sendNumbered(UInt32(arguments[0]) ?? 0)

    case "take-numbered-without-descriptors":
        try takeNumberedWithoutDescriptors(UInt32(arguments[0]) ?? 0, until: arguments[1])

    case "send-numbered-without-descriptors":
        try sendNumberedWithoutDescriptors(UInt32(arguments[0]) ?? 0)

    case "send-to-named":
        try sendToNamed(Int(arguments[0]) ?? 0)

    case "fill-ring":
        try fillRing(UInt32(arguments[0]) ?? 0, size: Int(arguments[1]) ?? 0, joining: arguments.dropFirst(2).first)

    case "keep-all":
        try keepAll()

    default:
        fail("unknown command")
    }
}

/// A reply right that is never used. Used by the main thread alone.
final class Kept: @unchecked Sendable {
    var right: ReplyRight?
}

/// The child finds that it has no ports and does no harm to the parent's, whatever it tries.
func forkAndGoOn() throws -> Never {
    let server = try LocalMessagePort(name: "forked") { _, data in data }
    let extra = try MachPort { _ in }
    try PortNameServer.shared.register(extra, name: "extra")
    try server.schedule(in: .current)
    try extra.schedule(in: .current)
    let watch = try PortNameWatch(.shared)
    let tester = try test()
    try tester.send(MachPort.Message(id: 1, replyPort: server.sendRight))
    let child = fork()
    if child == 0 {
        let attempts: [() throws -> Void] = [
            { _ = try MachPort { _ in } },
            { try tester.send(MachPort.Message(id: 2)) },
            { try extra.schedule(in: .current) },
            { _ = try extra.receive(before: .distantPast) },
            { _ = try PortNameServer.shared.port(forName: "test") },
            { try PortNameServer.shared.remove(extra, name: "forked") },
            { _ = try RemoteMessagePort(tester).request(id: 1) },
            { try RemoteMessagePort(tester).send(id: 1) },
            { _ = try RemoteMessagePort(name: "test") },
            { _ = try LocalMessagePort(name: "new") { _, data in data } },
            { try server.rename(to: "new") },
            { try PortNameServer.shared.register(extra, name: "new") },
            { _ = try PortNameServer.shared.names() },
            { _ = try PortNameServer.shared.waitForPort(forName: "new", before: .now + .seconds(5)) },
            { _ = try tester.ping(before: .now + .seconds(5)) },
            { _ = try tester.statistics(before: .now + .seconds(5)) },
            { try extra.setQueue(.main) },
            { try server.schedule(in: .current) },
            { _ = try watch.next(before: .now + .seconds(5)) },
        ]
        for (number, attempt) in attempts.enumerated() {
            do {
                try attempt()
                _exit(Int32(10 + number))
            } catch PortError.unavailable {
                continue
            } catch {
                _exit(Int32(30 + number))
            }
        }
        if LocalMessagePort.existing("forked") != nil { _exit(60) }
        server.invalidate()
        extra.remove(from: .current)
        extra.invalidate()
        exit(extra.isValid || tester.isValid ? 50 : 0)
    }
    var status: Int32 = 0
    waitpid(child, &status, 0)
    try tester.send(MachPort.Message(id: 3, [.bytes([UInt8(truncatingIfNeeded: status >> 8), UInt8(status & 0x7f)])]))
    // A second one lives on after the parent.
    let survivor = fork()
    if survivor == 0 {
        alarm(150)
        while true { pause() }
    }
    try tester.send(MachPort.Message(id: 4, [.bytes(Array("\(survivor)".utf8))]))
    try runForEver()
}

/// The user has no inotify instance: nothing can be waited for, but a name can be owned.
func watchWithoutInstances() throws -> Never {
    let wait = Result { () throws(PortError) in
        try PortNameServer.shared.waitForPort(forName: "nobody", before: .now + .seconds(30))
    }
    guard wait == .failure(.runLoop(.outOfFileSources(limit: 0))) else { fail("\(wait)") }
    let port = try MachPort()
    try PortNameServer.shared.register(port, name: "nobody")
    guard try PortNameServer.shared.waitForPort(forName: "nobody", before: .distantPast) == port.sendRight else {
        fail("another port has the name")
    }
    exit(0)
}

/// Returns from the program while threads send, receive, wait for room and serve.
func endWhileBusy() throws -> Never {
    let started = Latch()
    let tester = try test()
    let full = try MachPort(queueLimit: 1)
    let flooded = try RunLoopThread()
    let sink = try MachPort { _ in }
    try sink.schedule(in: flooded.loop)
    let idle = try MachPort()
    let jobs: [@Sendable () throws -> Void] = [
        { while true { try sink.sendRight.send(MachPort.Message(id: 1)) } },
        { while true { try sink.sendRight.send(MachPort.Message(id: 1)) } },
        { while true { try full.sendRight.send(MachPort.Message(id: 1)) } },
        { while true { try tester.send(MachPort.Message(id: 2)) } },
        { _ = try idle.receive() },
        { while true { try MachPort { _ in }.schedule(in: flooded.loop) } },
    ]
    let threads = try jobs.map { job in
        try RunLoopThread { _ in
            do { try job() } catch {}
        }
    }
    try tester.send(MachPort.Message(id: 1))
    _ = started.wait(until: .now + .milliseconds(50))
    withExtendedLifetime(threads) { exit(0) }
}

do {
    let arguments = CommandLine.arguments
    guard arguments.count > 1 else { fail("no command") }
    if arguments[1] == "leave", arguments.count > 4 {
        // It may return.
        try leave(
            arguments[2], UInt32(arguments[3]) ?? 0, flushBound: .milliseconds(Int(arguments[4]) ?? 0))
    } else {
        try run(arguments[1], Array(arguments.dropFirst(2)))
    }
} catch {
    fail("\(error)")
}
