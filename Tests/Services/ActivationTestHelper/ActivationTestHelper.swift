package import Activation
import Glibc
import TestSupport

/// Asks the service which process it is.
package struct WhoAreYou: PortRequest {
    package typealias Reply = Int32
    package init() {}
}

/// Is noted in the file that the environment names.
package struct Note: PortRequest {
    package typealias Reply = Int32
    package var number: Int
    package init(_ number: Int) { self.number = number }
}

/// Ends the process, while it has the request.
package struct Crash: PortRequest {
    package typealias Reply = EmptyReply
    package init() {}
}

/// Stays without an answer.
package struct Hang: PortRequest {
    package typealias Reply = EmptyReply
    package init() {}
}

/// Counts from one on, and says zero when the service ends.
package struct Ticks: PortStreamRequest {
    package typealias Element = Int
    package init() {}
}

/// Gives the service's port to the process of the name “heir”, and ends the service.
package struct PassOn: PortRequest {
    package typealias Reply = EmptyReply
    package init() {}
}

/// The service of the tests; with arguments, a process that asks it.
@main enum ActivationTestHelper {
    static func main() async throws {
        guard CommandLine.arguments.count > 1 else { return await TestService.main() }
        switch CommandLine.arguments[1] {
        case "inherit": return try await TestService.inherit()
        case "give-back": return try await TestService.giveBack()
        case "serve-late": return try await TestService.serveLate()
        case "launch": return try await TestService.launch()
        case "wait-for-port": return await TestService.waitForPort()
        default: break
        }
        let pid = try await RequestClient(TestService.serviceName).request(WhoAreYou(), timeout: .seconds(60))
        TestService.print(to: STDOUT_FILENO, "\(pid)\n")
        exit(0)
    }
}

private struct TestService: ServiceProgram {
    static let serviceName = "test"
    private static let ticking = Shared<[AsyncStream<Int>.Continuation]>([])

    static func willEnd(_ server: RequestServer) {
        for ticks in ticking.withLock({ exchange(&$0, with: []) }) {
            ticks.yield(0)
            ticks.finish()
        }
    }

    static func serve(_ server: RequestServer) throws {
        if let text = environment("FAIL_AT_START") {
            print(to: STDERR_FILENO, "one line\n\(text)\n")
            exit(3)
        }
        server.handle(WhoAreYou.self) { _ in getpid() }
        server.handle(Note.self) { request in
            note("\(request.number)")
            return getpid()
        }
        server.handle(Hang.self) { _ in
            note("hangs")
            while true { try? await Task.sleep(for: .seconds(1000)) }
        }
        server.handle(Ticks.self) { _ in
            let (stream, ticks) = AsyncStream.makeStream(of: Int.self)
            ticks.yield(1)
            ticking.withLock { $0.append(ticks) }
            return stream
        }
        server.handle(PassOn.self) { _ in
            Task {
                let heir = try await RemoteMessagePort(name: "heir").sendRight
                _ = try await server.port.handOver(to: heir)
                exit(0)
            }
            return EmptyReply()
        }
        server.handle(Crash.self) { _ in
            signal(SIGSEGV, SIG_DFL)
            raise(SIGSEGV)
            return EmptyReply()
        }
    }

    /// Serves with the port that another process gives to this one.
    static func inherit() async throws {
        let port = try LocalMessagePort(name: "heir").port
        guard let right = try await port.receive(before: .now + .seconds(60)).receiveRight(ofComponent: 0) else {
            exit(4)
        }
        let server = RequestServer(try await LocalMessagePort(claiming: right))
        try serve(server)
        try await server.run()
    }

    /// Gives its port back, whatever waits.
    static func giveBack() async throws {
        guard let service = try await ActivatedService.fromEnvironment() else { exit(4) }
        try await service.ready()
        try await service.giveBack()
    }

    /// Takes its first message later than it may be idle.
    static func serveLate() async throws {
        guard let service = try await ActivatedService.fromEnvironment(), let idleTime = service.idleTime else {
            exit(4)
        }
        let server = RequestServer(service.port)
        try serve(server)
        try await service.ready()
        async let running: Void = {
            try await Task.sleep(for: idleTime * 200)
            try await server.run()
        }()
        try await service.waitUntilIdle()
        try await service.giveBack()
        try await running
    }

    /// An activator that never gives the port.
    static func launch() async throws {
        var program = WorkerProcess.Configuration("/proc/self/exe", ["wait-for-port"])
        program.environment = .inherit.updating(["PORTS_ACTIVATED": "1"])
        // Valid until the process ends.
        let port = try MachPort()
        defer { port.invalidate() }
        let worker = try WorkerProcess.start(program, port: port.sendRight)
        _ = try await worker.checkIn(before: .now + .seconds(60))
        note("\(worker.pid)")
        while true { try await Task.sleep(for: .seconds(1000)) }
    }

    static func waitForPort() async {
        do { _ = try await ActivatedService.fromEnvironment(timeout: nil) } catch { note("\(error)") }
    }

    private static func note(_ text: String) {
        let file = open(environment("NOTES") ?? "", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(file) }
        print(to: file, "\(text)\n")
    }

    static func print(to file: Int32, _ text: String) {
        let bytes = Array(text.utf8)
        if write(file, bytes, bytes.count) != bytes.count { exit(9) }
    }

    private static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
