import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// The settings that a worker process is started with, and the waits of tasks for it.
@Suite(.ownThread) struct WorkerProcessTests {
    let sandbox = Sandbox()
    let folder = TemporaryFolder()

    private func start(_ configuration: WorkerProcess.Configuration) throws -> WorkerProcess {
        try WorkerProcess.start(configuration, port: MachPort().sendRight, nameServer: sandbox.names)
    }

    /// The lines that a program writes.
    private func output(_ configuration: WorkerProcess.Configuration) throws -> [String] {
        var configuration = configuration
        configuration.standardOutput = .file("\(folder.path)/output")
        unlink("\(folder.path)/output")
        #expect(try start(configuration).waitForExit(before: .patience) == .exited(0))
        return lines("output")
    }

    private func lines(_ file: String) -> [String] {
        String(decoding: folder.contents(of: file), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func `a runtime that ends leaves nothing of a worker that has not checked in`() throws {
        weak var ended: WorkerProcess?
        let pid: pid_t
        do {
            let runtime = PortRuntime(directory: folder.path)
            let worker = try WorkerProcess.start(
                WorkerProcess.Configuration("/bin/sleep", ["60"]), nameServer: runtime.nameServer)
            (ended, pid) = (worker, worker.pid)
        }
        #expect(waitUntil { ended == nil })
        #expect(kill(pid, SIGKILL) == 0)
        #expect(waitpid(pid, nil, 0) == pid)
    }

    /// The reason why a program cannot be started.
    private func refusal(_ configuration: WorkerProcess.Configuration) -> String? {
        do {
            _ = try start(configuration)
            return nil
        } catch CheckInError.notLaunched(let reason) {
            return reason
        } catch {
            return "another error: \(error)"
        }
    }

    // MARK: Surroundings

    @Test func `a worker starts in its working directory, and a relative program is looked for there`() throws {
        #expect(try output(.init("/bin/pwd", workingDirectory: folder.path)) == [folder.path])
        folder.write(Array("#!/bin/sh\necho \"$0 $1\"\n".utf8), to: "tool")
        chmod("\(folder.path)/tool", 0o700)
        #expect(try output(.init("./tool", ["a b"], workingDirectory: folder.path)) == ["./tool a b"])
    }

    @Test func `a working directory that is none is named`() {
        folder.write([], to: "file")
        for (path, error) in [
            ("/nonexistent", ENOENT), ("\(folder.path)/file", ENOTDIR), ("", ENOENT), ("\(folder.path)/none", ENOENT),
        ] {
            #expect(
                refusal(.init("/bin/true", workingDirectory: path))
                    == "the working directory \(path): \(String(cString: strerror(error)))")
        }
        #expect(refusal("/nonexistent") == "/nonexistent: No such file or directory")
        #expect(refusal(.init(folder.path)) == "\(folder.path): Permission denied")
    }

    @Test func `a worker's environment is this one's with changes, or what is given`() throws {
        func names(_ lines: [String]) -> Set<Substring> { Set(lines.map { $0.prefix { $0 != "=" } }) }
        let ours = try output("/usr/bin/env")
        #expect(ours.contains("PORTS_DIRECTORY=\(sandbox.path)"))
        let path = try #require(ours.first { $0.hasPrefix("PATH=") })
        let changed = try output(
            .init("/usr/bin/env", environment: .inherit.updating(["PATH": nil, "ADDED": "x=y", "EMPTY": ""])))
        #expect(changed.contains("ADDED=x=y"))
        #expect(changed.contains("EMPTY="))
        #expect(!changed.contains(path))
        #expect(names(changed) == names(ours).subtracting(["PATH"]).union(["ADDED", "EMPTY"]))
        let own = try output(
            .init(
                "/usr/bin/env",
                environment: .custom(["A": "1", "B": "2", "PORTS_DIRECTORY": "/"]).updating(["B": nil, "C": "ü"])))
        #expect(names(own) == ["A", "C", "PORTS_CHECK_IN", "PORTS_DIRECTORY"])
        #expect(own.contains("C=ü"))
        #expect(own.contains("PORTS_DIRECTORY=\(sandbox.path)"))
    }

    @Test func `a worker does not inherit what a service manager tells its parent, unless it is given that`() {
        let told = Dictionary(uniqueKeysWithValues: ManagerVariables.names.map { ($0, "told") })
        #expect(told.keys.contains("NOTIFY_SOCKET"))
        let environment = told.merging(["PORTS_DIRECTORY": sandbox.path, "OTHER": "x"]) { $1 }
        func inherited(_ given: String...) -> Set<String> {
            let run = Run([Child.program, "environment"] + given, environment: environment)
            #expect(run.child.wait() == 0)
            let lines = String(decoding: run.output, as: UTF8.self).split(separator: "\n")
            #expect(lines.contains("OTHER=x"))
            return Set(lines.map(String.init).filter { line in told.keys.contains { line.hasPrefix("\($0)=") } })
        }
        #expect(inherited() == [])
        #expect(inherited("NOTIFY_SOCKET", "MAINPID") == ["NOTIFY_SOCKET=given", "MAINPID=given"])
    }

    @Test func `what no program can be given is refused`() {
        for name in ["", "A=B", "="] {
            #expect(
                refusal(.init("/bin/true", environment: .custom([name: "x"])))
                    == "\(name.debugDescription) cannot be the name of a variable")
        }
        let configurations: [WorkerProcess.Configuration] = [
            "/bin/true\0", .init("/bin/true", ["a\0b"]), .init("/bin/true", environment: .custom(["A": "\0"])),
            .init("/bin/true", workingDirectory: "/\0"), .init("/bin/true", standardError: .file("/dev/null\0")),
        ]
        for configuration in configurations { #expect(refusal(configuration)?.hasSuffix("contains a NUL") == true) }
    }

    @Test func `a worker has the limits that it was given, and programs that it runs as well`() throws {
        var program = WorkerProcess.Configuration("/bin/sh", ["-c", "cat /proc/self/limits"])
        program.limits = .init(
            addressSpace: 1 << 30, processorTime: .seconds(77), openFiles: 100, fileSize: 1 << 20, coreSize: 0)
        let limits = try output(program)
        for (name, limit) in [
            ("Max address space", "1073741824"), ("Max cpu time", "77"), ("Max open files", "100"),
            ("Max file size", "1048576"), ("Max core file size", "0"),
        ] {
            let line = limits.first { $0.hasPrefix(name) }?.dropFirst(name.count).split(separator: " ")
            #expect(line?.prefix(2).map(String.init) == [limit, limit], "\(name)")
        }
        program.limits = .init(openFiles: -1)
        #expect(refusal(program) == "the limit of open files is -1, and cannot be negative")
        program = "/bin/true"
        program.limits.openFiles = 1 << 40
        #expect(refusal(program) == "the limit of open files: Operation not permitted")
    }

    @Test func `a worker is in a group or a session of its own if it is to be`() throws {
        // Process, group, session.
        var program = WorkerProcess.Configuration("/bin/sh", ["-c", "echo $$; cut -d' ' -f5,6 /proc/self/stat"])
        #expect(try output(program)[1] == "\(getpgrp()) \(getsid(0))")
        program.processGroup = .own
        var lines = try output(program)
        #expect(lines[1] == "\(lines[0]) \(getsid(0))")
        program.processGroup = .ownSession
        lines = try output(program)
        #expect(lines[1] == "\(lines[0]) \(lines[0])")
    }

    @Test func `a worker gives way, and gains no privileges, if it is told so`() throws {
        var program = WorkerProcess.Configuration("/bin/sh", ["-c", "nice; grep NoNewPrivs /proc/self/status"])
        let before = try output(program)
        #expect(before[1] == "NoNewPrivs:\t0")
        program.niceness = 3
        program.mayGainPrivileges = false
        #expect(try output(program) == ["\((Int(before[0]) ?? 0) + 3)", "NoNewPrivs:\t1"])
    }

    @Test func `a control group that is none is named`() {
        var program: WorkerProcess.Configuration = "/bin/true"
        program.controlGroup = "/nonexistent"
        #expect(refusal(program) == "the control group /nonexistent: No such file or directory")
        folder.write([], to: "cgroup.procs")
        program.controlGroup = folder.path
        // Any file would be written to.
        #expect(refusal(program) == nil)
        #expect(String(decoding: folder.contents(of: "cgroup.procs"), as: UTF8.self) == "0")
    }

    @Test func `a worker that ends with its launcher outlives the thread that has started it`() throws {
        var program = WorkerProcess.Configuration("/bin/sleep", ["1000"])
        program.endsWithLauncher = true
        let started = Helper { [program, names = sandbox.names] in
            try? WorkerProcess.start(program, nameServer: names)
        }
        let worker = try #require(started.join())
        #expect(worker.waitForExit(before: .now + .milliseconds(100)) == nil)
        worker.send(signal: SIGTERM)
        #expect(worker.waitForExit(before: .patience) == .signaled(SIGTERM))
    }

    @Test(arguments: [false, true])
    func `a worker that ends with its launcher at first may outlive it`(_ outlives: Bool) throws {
        let desk = try Desk(sandbox)
        let launcher = Child("launch-at-first", outlives ? "outlive" : "end", folder.path, in: sandbox)
        _ = try desk.port.receive(before: .patience)
        #expect(waitUntil { lines("pid").count == 1 })
        let worker = try #require(lines("pid").first.flatMap { pid_t($0) })
        launcher.kill()
        if outlives {
            #expect(launcher.wait() == -SIGKILL)
            #expect(!ProcessStatus.isEnding(worker))
            kill(worker, SIGKILL)
        }
        #expect(waitUntil { ProcessStatus.isEnding(worker) })
    }

    @Test func `what a worker has started ends with it if it is to end with its launcher`() throws {
        var program = WorkerProcess.Configuration("/bin/sh", ["-c", "sleep 1000 & echo $!; wait"])
        program.standardOutput = .file("\(folder.path)/output")
        program.processGroup = .own
        program.endsWithLauncher = true
        let worker = try start(program)
        #expect(waitUntil { lines("output").count == 1 })
        let child = try #require(lines("output").first.flatMap { pid_t($0) })
        #expect(kill(child, 0) == 0)
        worker.send(signal: SIGKILL)
        #expect(worker.waitForExit(before: .patience) == .signaled(SIGKILL))
        #expect(waitUntil { ProcessStatus.isEnding(child) })
    }

    // MARK: Streams

    @Test func `a worker reads a file, and appends to files`() throws {
        folder.write(Array("in\n".utf8), to: "input")
        for _ in 0..<2 {
            let worker = try start(
                .init(
                    "/bin/sh", ["-c", "cat; echo out; echo err >&2"], standardInput: .file("\(folder.path)/input"),
                    standardOutput: .file("\(folder.path)/both"), standardError: .file("\(folder.path)/both")))
            #expect(worker.waitForExit(before: .patience) == .exited(0))
        }
        #expect(lines("both") == ["in", "out", "err", "in", "out", "err"])
    }

    @Test func `a worker's streams lead to descriptors, or nowhere`() throws {
        var (input, output): ([Int32], [Int32]) = ([0, 0], [0, 0])
        #expect(pipe(&input) == 0)
        #expect(pipe(&output) == 0)
        let worker = try start(
            .init(
                "/bin/sh", ["-c", "cat; ls /proc/self/fd >&2"], standardInput: .descriptor(input[0]),
                standardOutput: .descriptor(output[1]), standardError: .file("\(folder.path)/descriptors")))
        close(output[1])
        close(input[0])
        #expect(write(input[1], "hello", 5) == 5)
        close(input[1])
        var buffer = [UInt8](repeating: 0, count: 64)
        #expect(read(output[0], &buffer, 64) == 5)
        #expect(buffer.prefix(5) == Array("hello".utf8)[...])
        // Neither the other ends of the pipes, which are not close-on-exec, nor the library's own.
        #expect(read(output[0], &buffer, 64) == 0)
        close(output[0])
        #expect(worker.waitForExit(before: .patience) == .exited(0))
        #expect(lines("descriptors") == ["0", "1", "2", "3"])

        let idle = try start(
            .init(
                "/bin/sh", ["-c", "cat && exec sleep 60"], standardInput: .discard, standardOutput: .descriptor(2),
                standardError: .descriptor(1)))
        func target(_ process: String, _ descriptor: Int) -> String {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = readlink("/proc/\(process)/fd/\(descriptor)", &buffer, buffer.count)
            return String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
        }
        #expect(target("\(idle.pid)", 0) == "/dev/null")
        #expect(target("\(idle.pid)", 1) == target("self", 2))
        #expect(target("\(idle.pid)", 2) == target("self", 1))
        idle.send(signal: SIGKILL)
    }

    @Test func `a stream that cannot be opened is named, and a pipe's other end is not waited for`() throws {
        #expect(
            refusal(.init("/bin/true", standardInput: .file("/nonexistent")))
                == "standard input, /nonexistent: No such file or directory")
        #expect(
            refusal(.init("/bin/true", standardOutput: .file(folder.path)))
                == "standard output, \(folder.path): Is a directory")
        #expect(
            refusal(.init("/bin/true", standardError: .descriptor(-1)))
                == "standard error, descriptor -1: Bad file descriptor")
        let path = "\(folder.path)/pipe"
        #expect(mkfifo(path, 0o600) == 0)
        #expect(
            refusal(.init("/bin/true", standardOutput: .file(path)))
                == "standard output, \(path): No such device or address")
        let reader = try start(.init("/bin/cat", standardInput: .file(path)))
        #expect(reader.waitForExit(before: .patience) == .exited(0))
    }

    // MARK: Tasks

    @Test func `a task launches a worker, talks to it, and waits for its end`() async throws {
        let port = try MachPort(nameServer: sandbox.names)
        let worker = try await WorkerProcess.launch(
            .init(Child.program, ["worker-task"]), port: port.sendRight, nameServer: sandbox.names, before: .patience)
        #expect(try await port.receive(before: .patience).id == 5)
        #expect(try await worker.checkIn() == worker.port)
        #expect(try await worker.waitForExit(before: .now + .milliseconds(20)) == nil)
        let cancelled = Task { try await worker.waitForExit() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        try await worker.port.send(MachPort.Message(id: 4))
        #expect(try await worker.waitForExit(before: .patience) == .exited(4))
        let late = Task {
            try await WorkerProcess.launch(
                .init(Child.program, ["silent"]), port: port.sendRight, nameServer: sandbox.names,
                before: .now + .milliseconds(20))
        }
        await #expect(throws: CheckInError.timedOut(worker: "worker “\(Child.program)”")) { try await late.value }
        let dead = Task {
            try await WorkerProcess.launch("/bin/false", port: port.sendRight, nameServer: sandbox.names)
        }
        await #expect(throws: CheckInError.died(worker: "worker “/bin/false”", status: .exited(1))) {
            try await dead.value
        }
    }

    @Test func `a handler that learns of the worker's end finds its check-in failed`() async throws {
        let port = try MachPort(nameServer: sandbox.names)
        let worker = try WorkerProcess.start(
            .init("/bin/sleep", ["60"]), port: port.sendRight, nameServer: sandbox.names)
        let seen = await withCheckedContinuation { continuation in
            worker.onExit { _ in
                continuation.resume(returning: Result { () throws(CheckInError) in try worker.port })
            }
            worker.send(signal: SIGTERM)
        }
        #expect(throws: CheckInError.died(worker: "worker “/bin/sleep”", status: .signaled(SIGTERM))) {
            try seen.get()
        }
    }

    @Test func `a cancelled launch kills the worker, and a cancelled wait does not`() async throws {
        let port = try MachPort(nameServer: sandbox.names)
        let silent = WorkerProcess.Configuration(
            "/bin/sh", ["-c", "echo $$; exec sleep 60"], standardOutput: .file("\(folder.path)/pid"))
        let launch = Task {
            try await WorkerProcess.launch(silent, port: port.sendRight, nameServer: sandbox.names, before: nil)
        }
        #expect(await waitUntil { lines("pid").count == 1 })
        launch.cancel()
        await #expect(throws: CancellationError.self) { try await launch.value }
        let pid = try #require(lines("pid").first.flatMap { pid_t($0) })
        // The child is collected, too.
        #expect(await waitUntil { kill(pid, 0) != 0 })

        let worker = try WorkerProcess.start(silent, port: port.sendRight, nameServer: sandbox.names)
        let wait = Task { try await worker.checkIn(before: nil) }
        wait.cancel()
        await #expect(throws: CancellationError.self) { try await wait.value }
        #expect(worker.status == nil)
        #expect(throws: CheckInError.notCheckedIn(worker: "worker “/bin/sh”")) { try worker.port }
        worker.send(signal: SIGTERM)
        #expect(try await worker.waitForExit(before: .patience) == .signaled(SIGTERM))
        #expect(throws: CheckInError.died(worker: "worker “/bin/sh”", status: .signaled(SIGTERM))) { try worker.port }
    }
}
