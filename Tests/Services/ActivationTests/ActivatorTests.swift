import ActivationTestHelper
import Glibc
import OwnThread
import TestSupport
import Testing

@testable import Activation

/// Services of real processes, which start with the first message.
@Suite(.fewAtATime) struct ActivatorTests {
    private let folder = TemporaryFolder()
    private let names: PortNameServer

    init() {
        names = PortNameServer(directory: folder.path + "/ports")
        mkdir(services, 0o700)
    }

    private var services: String { folder.path + "/services" }
    private var notes: String { folder.path + "/notes" }

    /// Writes the file of a service whose program is the tests' own.
    private func write(
        _ name: String = "test", _ lines: String..., program: String = "\(Child.folder)/ActivationTestHelper"
    ) {
        let text =
            ["[Service]", "ExecStart=\(program)", "Environment=SWIFT_BACKTRACE=enable=no NOTES=\(notes)"] + lines
        folder.write(Array(text.joined(separator: "\n").utf8), to: "services/\(name).service")
    }

    /// Calls the closure with an activator that runs.
    /// - Parameter runtime: Where the activator's ports are; nil for that of all tests.
    private func withActivator(
        in runtime: PortRuntime? = nil, _ body: (ActivatorClient) async throws -> Void
    ) async throws {
        let activator = try Activator(
            folder: services, logs: folder.path + "/log", nameServer: runtime?.nameServer ?? names)
        async let running: Void = activator.run()
        var failure: (any Error)?
        do {
            try await body(ActivatorClient(nameServer: names))
        } catch {
            failure = error
        }
        activator.stop()
        try await running
        if let failure { throw failure }
    }

    @Test func `a service that is stopped ends its streams itself`() async throws {
        write()
        try await withActivator { activator in
            let (isTicking, tick) = AsyncStream.makeStream(of: Void.self)
            let stopping = Task {
                for await _ in isTicking { break }
                try await activator.stop("test")
            }
            var ticks: [Int] = []
            for try await number in client().stream(Ticks(), timeout: .seconds(60)) {
                ticks.append(number)
                tick.yield()
            }
            try await stopping.value
            #expect(ticks == [1, 0])
            #expect(try await activator.services().first?.lastFailure == nil)
        }
    }

    /// The number of descriptors of this process for a file.
    private func openCount(of path: String) -> Int {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        return (entries(of: "/proc/self/fd") ?? []).count { descriptor in
            let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count)
            return count > 0 && String(decoding: buffer.prefix(count), as: UTF8.self) == path
        }
    }

    private func client(_ name: String = "test") -> RequestClient { RequestClient(name, nameServer: names) }

    /// Asks a service, with time for it to start.
    private func ask<R: PortRequest>(_ request: R, of name: String = "test") async throws -> R.Reply {
        try await client(name).request(request, timeout: .seconds(60))
    }

    private func phase(_ client: ActivatorClient, _ name: String = "test") async throws -> ServicePhase? {
        try await client.services().first { $0.name == name }?.phase
    }

    private func wait(_ client: ActivatorClient, _ isMeant: (ServicePhase) -> Bool) async throws {
        let deadline = ContinuousClock.Instant.patience
        while let phase = try await phase(client), !isMeant(phase) {
            try #require(.now < deadline, "the service is \(phase)")
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    @Test func `the first request starts the service, and further ones go to the same process`() async throws {
        write()
        try await withActivator { activator in
            #expect(try await phase(activator) == .waiting)
            let pid = try await ask(WhoAreYou())
            #expect(try await ask(WhoAreYou()) == pid)
            #expect(try await phase(activator) == .running(pid: pid))
            #expect(try await activator.services().first?.startCount == 1)
        }
    }

    @Test func `counters have the services of an activator while it runs`() async throws {
        write()
        let runtime = PortRuntime(directory: names.path)
        func service() async -> PortCounters.Service? { await runtime.counters().services["test"] }
        try await withActivator(in: runtime) { activator in
            try await wait(activator) { $0 == .waiting }
            #expect(await service()?.state == "waiting")
            _ = try await ask(WhoAreYou())
            try await wait(activator) { $0.word == "running" }
            let running = await service()
            #expect(running?.state == "running" && running?.starts == 1)
        }
        #expect(await service() == nil)
    }

    @Test func `many processes that ask at once get one service`() async throws {
        write()
        try await withActivator { activator in
            let count = Scale.count(20, long: 200)
            let children = (0..<count).map { _ in
                Child(["\(Child.folder)/ActivationTestHelper", "ask"], environment: ["PORTS_DIRECTORY": names.path])
            }
            for child in children { #expect(await waitUntil { child.wait(before: .distantPast) != nil }) }
            #expect(children.allSatisfy { $0.wait() == 0 })
            let services = try await activator.services()
            #expect(services.first?.startCount == 1)
        }
    }

    @Test func `a service with nothing to do ends, and the next message starts it again`() async throws {
        write("test", "IdleSec=50ms")
        try await withActivator { activator in
            let first = try await ask(WhoAreYou())
            try await wait(activator) { $0 == .waiting }
            #expect(kill(first, 0) != 0)
            let second = try await ask(WhoAreYou())
            #expect(second != first)
            #expect(try await activator.services().first?.startCount == 2)
        }
    }

    @Test func `the port is not kept for longer than it is lent`() async throws {
        write("test", "IdleSec=50ms")
        try await withActivator { _ in
            _ = try await names.waitForPort(forName: "test", before: .patience)
            // Its name comes first.
            #expect(await waitUntil { LocalMessagePort.existing("test", nameServer: names) != nil })
            weak let first = LocalMessagePort.existing("test", nameServer: names)
            _ = try await ask(WhoAreYou())
            #expect(await waitUntil { first == nil })
            _ = try await ask(WhoAreYou())
        }
    }

    @Test func `no request is lost, though the service ends again and again`() async throws {
        write("test", "IdleSec=1ms")
        let rounds = Scale.count(15, long: 1000)
        try await withActivator { activator in
            let (count, isOver) = (Shared(0), Shared(false))
            let asking = Task {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for asker in 0..<4 {
                        group.addTask {
                            var number = asker
                            while !isOver.withLock({ $0 }) {
                                _ = try await ask(Note(number))
                                count.withLock { $0 += 1 }
                                number += 4
                                // Pauses of different lengths meet all moments of an end.
                                try? await Task.sleep(for: .microseconds(500 * (number % 13)))
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            }
            let deadline = ContinuousClock.now + .seconds(rounds)
            while let service = try await activator.services().first, service.startCount <= rounds {
                try #require(service.phase.reason == nil && .now < deadline + .seconds(60))
                try await Task.sleep(for: .milliseconds(20))
            }
            isOver.withLock { $0 = true }
            try await asking.value
            let noted = String(decoding: folder.contents(of: "notes"), as: UTF8.self).split(separator: "\n")
            // Each request once: it is not asked again.
            #expect(Set(noted).count == noted.count)
            #expect(noted.count == count.withLock { $0 })
        }
    }

    @Test func `requests that a crashed service had not taken go to the next one`() async throws {
        write()
        try await withActivator { activator in
            let first = try await ask(WhoAreYou())
            // It takes nothing more, until it is killed.
            Child.stop(first)
            async let answers = withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<10 { group.addTask { try await ask(WhoAreYou()) } }
                return try await group.reduce(into: Set<Int32>()) { $0.insert($1) }
            }
            try await Task.sleep(for: .milliseconds(50))
            kill(first, SIGKILL)
            let pids = try await answers
            #expect(pids.count == 1 && !pids.contains(first))
        }
    }

    /// The error of a request that has to fail.
    private func failure<R: PortRequest>(of request: R) async throws -> String {
        let error = await #expect(throws: PortError.self) { try await ask(request) }
        guard case .failed(_, let failure)? = error else { return "\(String(describing: error))" }
        return failure.text
    }

    @Test func `the request that a service dies of names the service and the signal, and the next one is answered`()
        async throws
    {
        write()
        try await withActivator { activator in
            // It starts the service.
            #expect(try await failure(of: Crash()).hasSuffix("was ended by signal 11 (Segmentation fault)"))
            let pid = try await ask(WhoAreYou())
            #expect(try await activator.services().first?.startCount == 2)
            let end = "the service “test” (pid \(pid)) was ended by signal 11 (Segmentation fault)"
            #expect(try await failure(of: Crash()) == end)
            _ = try await ask(WhoAreYou())
        }
    }

    @Test func `all requests that a crashed service had taken name the cause, and so do its streams`() async throws {
        write()
        try await withActivator { activator in
            let pid = try await ask(WhoAreYou())
            let (isTicking, tick) = AsyncStream.makeStream(of: Void.self)
            async let stream: String = {
                do {
                    for try await _ in client().stream(Ticks(), timeout: .seconds(60)) { tick.yield() }
                    return "no error"
                } catch {
                    return "\(error)"
                }
            }()
            async let first = failure(of: Hang())
            async let second = failure(of: Hang())
            for await _ in isTicking { break }
            #expect(await waitUntil { folder.contents(of: "notes").split(separator: UInt8(ascii: "\n")).count == 2 })
            kill(pid, SIGKILL)
            let end = "the service “test” (pid \(pid)) was ended by signal 9 (Killed)"
            #expect(try await (first, second) == (end, end))
            #expect(await stream.hasSuffix(end))
        }
    }

    @Test func `a request of a service that had to be killed at its stop says so`() async throws {
        write("test", "TimeoutStopSec=200ms")
        try await withActivator { activator in
            async let hanging = failure(of: Hang())
            #expect(await waitUntil { !folder.contents(of: "notes").isEmpty })
            _ = try await activator.stop("test")
            let failure = try await hanging
            let reason = "was killed, because it was asked to end, and has not ended for 0.2 seconds"
            #expect(failure.hasSuffix(reason), "\(failure)")
        }
    }

    @Test func `a service that gives its port back without taking the message has failed to start`() async throws {
        write(program: "\(Child.folder)/ActivationTestHelper give-back")
        try await withActivator { activator in
            for _ in 0..<3 {
                #expect(
                    try await failure(of: WhoAreYou())
                        == "the service “test” has failed: it gives its port back without taking the message that waits"
                )
            }
            // The first time may be a stranger's doing. A busy machine may see the end of a pause.
            #expect(try await (2...4).contains(activator.services().first?.startCount ?? 0))
            // Without a message it has nothing to take.
            #expect(try await activator.start("test").lastFailure == nil)
            write()
            _ = try await activator.reload()
            _ = try await ask(WhoAreYou())
        }
    }

    @Test func `a service is not idle while a message waits`() async throws {
        write("test", "IdleSec=1ms", program: "\(Child.folder)/ActivationTestHelper serve-late")
        try await withActivator { activator in
            _ = try await ask(WhoAreYou())
            #expect(try await activator.services().first?.startCount == 1)
        }
    }

    @Test func `a service that waits for its port ends when its activator is killed`() async throws {
        let activator = Child(
            ["\(Child.folder)/ActivationTestHelper", "launch"],
            environment: ["PORTS_DIRECTORY": names.path, "NOTES": notes])
        #expect(await waitUntil { !folder.contents(of: "notes").isEmpty })
        activator.kill()
        // The number of the process, and then its error.
        #expect(await waitUntil { folder.contents(of: "notes").split(separator: UInt8(ascii: "\n")).count == 2 })
    }

    @Test func `a service that crashes too often is not started for a while`() async throws {
        write()
        try await withActivator { activator in
            var failure: String?
            let deadline = ContinuousClock.Instant.patience
            // Six in ten seconds, which a busy machine may not reach at once.
            while failure == nil, .now < deadline {
                await #expect(throws: PortError.self) { try await ask(Crash()) }
                failure = try await activator.services().first?.lastFailure
            }
            let reason = "it has ended too often, 6 times in 10.0 seconds: it was ended by signal 11"
            #expect(failure?.hasPrefix(reason) == true)
        }
    }

    @Test func `a service that does not start is an error with its last lines, and is not started for each asker`()
        async throws
    {
        write("test", "Environment=\"FAIL_AT_START=the disk is full\"")
        try await withActivator { activator in
            for _ in 0..<5 {
                do {
                    _ = try await ask(WhoAreYou())
                    Issue.record("answered")
                } catch PortError.failed(_, let failure) {
                    #expect(failure.text.contains("exited with status 3"))
                    #expect(failure.text.contains("one line | the disk is full"))
                }
            }
            let count = try await activator.services().first?.startCount ?? 0
            #expect((1...2).contains(count))
            // Mended, and started without a wait for the end of the pause.
            write()
            #expect(try await activator.start("test").phase.word == "running")
            _ = try await ask(WhoAreYou())
        }
    }

    @Test func `reload checks the files, and ends the pause of a service that has failed`() async throws {
        write("test", "Environment=\"FAIL_AT_START=the disk is full\"")
        try await withActivator { activator in
            // The pause is four seconds and more after three failures.
            for _ in 0..<4 { _ = try? await activator.start("test") }
            write("test", "Nonsense=1")
            let error = await #expect(throws: ServiceFailure.self) { try await activator.reload() }
            #expect(error?.text.hasPrefix("\(services)/test.service, line 4: [Service] has no key Nonsense") == true)
            write("test", "[Unit]\nDescription=Mended")
            let mended = try await activator.reload().first
            #expect(mended?.description == "Mended")
            try await wait(activator) { $0 == .waiting }
            _ = try await ask(WhoAreYou())
            #expect(try await activator.services().first?.lastFailure == nil)
        }
    }

    @Test func `a program that is no service is killed, and the reason says what is missing`() async throws {
        write("test", "TimeoutStartSec=200ms", program: "/bin/sleep 1000")
        try await withActivator { activator in
            let error = await #expect(throws: ServiceFailure.self) { try await activator.start("test") }
            #expect(
                error?.text.contains(
                    "it has not taken its port for 0.2 seconds: its main type has to be a ServiceProgram") == true)
        }
    }

    @Test func `a program that is not there is the reason each time, until it is there`() async throws {
        write(program: "/nowhere/program")
        try await withActivator { activator in
            for _ in 0..<2 {
                let error = await #expect(throws: ServiceFailure.self) { try await activator.start("test") }
                #expect(error?.text.contains("/nowhere/program") == true)
                #expect(error?.text.contains("No such file") == true, "\(String(describing: error))")
            }
            write()
            #expect(try await activator.start("test").phase.word == "running")
            _ = try await ask(WhoAreYou())
        }
    }

    @Test func `a folder with the name of a service file is the reason`() async throws {
        mkdir("\(services)/test.service", 0o700)
        try await withActivator { activator in
            let error = await #expect(throws: ServiceFailure.self) { try await activator.start("test") }
            #expect(error?.text.contains("the file cannot be read: Is a directory") == true)
        }
    }

    @Test func `relative paths start at the working directory`() throws {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let here = String(cString: try #require(getcwd(&buffer, buffer.count)))
        #expect(ServiceFolder(path: "services").path == "\(here)/services")
        #expect(ServiceLog(of: "test", in: "logs").path == "\(here)/logs/test.log")
        #expect(ServiceLog(of: "test", in: "/logs").path == "/logs/test.log")
    }

    @Test func `a service is stopped under load, and starts again`() async throws {
        write()
        try await withActivator { activator in
            let isOver = Shared(false)
            async let asking: Void = {
                while !isOver.withLock({ $0 }) { _ = try await ask(WhoAreYou()) }
            }()
            for _ in 0..<5 {
                _ = try await activator.stop("test")
                _ = try await ask(WhoAreYou())
            }
            isOver.withLock { $0 = true }
            try await asking
        }
    }

    @Test func `a service that is stopped while it starts has not failed`() async throws {
        write("test", "TimeoutStartSec=60", program: "/bin/sleep 1000")
        try await withActivator { activator in
            async let starting = activator.start("test", timeout: .seconds(60))
            try await wait(activator) { $0.word == "starting" }
            #expect(try await activator.stop("test").phase == .waiting)
            write()
            _ = try await ask(WhoAreYou())
            #expect(try await starting.phase.word == "running")
        }
    }

    @Test func `commands start, stop and restart a service`() async throws {
        write()
        try await withActivator { activator in
            let first = try await activator.start("test").phase.pid
            #expect(try await activator.start("test").phase.pid == first)
            let second = try await activator.restart("test").phase.pid
            #expect(second != nil && second != first)
            #expect(try await activator.stop("test").phase == .waiting)
            // As at systemd, a message starts it again.
            #expect(try await ask(WhoAreYou()) != second)
            let error = await #expect(throws: ServiceFailure.self) { try await activator.start("../test") }
            #expect(error?.text.contains("there is no service “../test”") == true)
        }
    }

    @Test func `a start of a service that runs counts once`() async throws {
        write()
        try await withActivator { activator in
            for _ in 0..<2 { _ = try await activator.start("test") }
            let pid = try #require(try await activator.start("test").phase.pid)
            kill(pid, SIGKILL)
            try await wait(activator) { $0 == .waiting }
            for _ in 0..<30 {
                #expect(try await activator.services().first?.startCount == 1)
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    @Test func `a service that was asked to end is stopping until it has ended`() async throws {
        write()
        try await withActivator { activator in
            let first = try await ask(WhoAreYou())
            Child.stop(first)
            async let stopping = activator.stop("test")
            try await wait(activator) { $0 == .stopping(pid: first) }
            async let starting = activator.start("test")
            kill(first, SIGCONT)
            #expect(try await stopping.phase.pid != first)
            // A start meanwhile is for the next process.
            let second = try await starting.phase.pid
            #expect(second != nil && second != first)
        }
    }

    @Test func `the activator ends, though a service has passed its port on and ended`() async throws {
        write()
        let heir = Child(
            ["\(Child.folder)/ActivationTestHelper", "inherit"], environment: ["PORTS_DIRECTORY": names.path])
        _ = try await names.waitForPort(forName: "heir", before: .patience)
        try await withActivator { _ in
            let first = try await ask(WhoAreYou())
            _ = try await ask(PassOn())
            #expect(await waitUntil { kill(first, 0) != 0 })
            #expect(try await ask(WhoAreYou()) == heir.pid)
        }
        // It goes on with the port.
        #expect(try await ask(WhoAreYou()) == heir.pid)
        heir.signal(SIGKILL)
        _ = heir.wait()
    }

    @Test func `a service that was started by hand keeps its name, until it ends`() async throws {
        write()
        let byHand = Child(
            ["\(Child.folder)/ActivationTestHelper"], environment: ["PORTS_DIRECTORY": names.path, "NOTES": notes])
        _ = try await names.waitForPort(forName: "test", before: .patience)
        try await withActivator { activator in
            // The first command may come before the activator has looked who has the name.
            for command in [activator.stop, activator.restart] {
                let error = await #expect(throws: ServiceFailure.self) { try await command("test", .seconds(30)) }
                #expect(error?.text.contains("process \(byHand.pid) has the name") == true)
            }
            try await wait(activator) { $0 == .elsewhere(pid: byHand.pid) }
            #expect(try await ask(WhoAreYou()) == byHand.pid)
            _ = try await activator.start("test")
            byHand.signal(SIGTERM)
            try await wait(activator) { $0 == .waiting }
            #expect(try await ask(WhoAreYou()) != byHand.pid)
        }
    }

    @Test func `the folder is read again`() async throws {
        try await withActivator { activator in
            #expect(try await activator.services().isEmpty)
            write("one")
            write("two")
            #expect(try await activator.reload().map(\.name) == ["one", "two"])
            let pid = try await ask(WhoAreYou(), of: "one")
            unlink("\(services)/one.service")
            #expect(try await activator.reload().map(\.name) == ["two"])
            #expect(await waitUntil { kill(pid, 0) != 0 })
        }
    }

    @Test func `others may not be able to write to a service file or the folder`() async throws {
        write()
        chmod("\(services)/test.service", 0o620)
        try await withActivator { activator in
            let error = await #expect(throws: ServiceFailure.self) { try await activator.start("test") }
            #expect(error?.text.contains("others can write to it: chmod go-w") == true)
            chmod("\(services)/test.service", 0o600)
            chmod(services, 0o777)
            let other = await #expect(throws: ServiceFailure.self) { try await activator.start("test") }
            #expect(other?.text.contains("\(services): others can write to it: chmod go-w") == true)
            for _ in 0..<3 { await #expect(throws: (any Error).self) { try await activator.reload() } }
            #expect(openCount(of: services) == 0)
        }
    }

    @Test func `the end of the activator ends its services`() async throws {
        write()
        let pid = Shared<Int32>(0)
        try await withActivator { _ in
            let found = try await ask(WhoAreYou())
            pid.withLock { $0 = found }
        }
        #expect(kill(pid.withLock { $0 }, 0) != 0)
        #expect(try names.names().isEmpty)
    }
}
