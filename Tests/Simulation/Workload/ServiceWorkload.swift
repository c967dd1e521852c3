import Glibc

@testable import Activation
@testable import Ports

/// A request to a service that an activator starts.
private struct Job: PortRequest {
    typealias Reply = Int
    let number: Int
}

// The activator of a program, whose services are processes of the machine.

extension Program {
    static let folder = "/sim/services"
    private static let serviceCount = 2
    static let servicePath = "/sim/service"
    /// The variable with a service's name.
    static let serviceVariable = "SERVICE"
    private static func serviceName(_ number: Int) -> String { "service \(number)" }

    /// Writes the files of the services.
    static func writeServices() {
        machine.files.add(machine.files.make(.folder, 0o700), at: folder)
        for number in 0..<serviceCount { writeService(serviceName(number)) }
    }

    private static func path(ofService name: String) -> String { "\(folder)/\(name).service" }

    /// Writes a service's file, in place of the one that is there.
    private static func writeService(_ name: String, isRight: Bool = true) {
        let file = machine.files.make(.file, 0o600)
        let idle = machine.chance.pick(["", "IdleSec=50ms\n", "IdleSec=2\n"])
        let stop = machine.chance.pick(["", "", "TimeoutStopSec=100ms\n"])
        let text = "Environment=\"\(serviceVariable)=\(name)\"\n\(idle)\(stop)"
        file.bytes = Array("[Service]\nExecStart=\(servicePath)\n\(isRight ? text : "IdleSec=soon\n")".utf8)
        _ = machine.files.remove(path(ofService: name), from: nil, isFolder: false)
        machine.files.add(file, at: path(ofService: name))
    }

    func activate() {
        while goesOn {
            let made = attempt { () throws(PortError) -> Activator? in
                guard let names else { return nil }
                return try Activator(folder: Self.folder, logs: "/sim/log", nameServer: names)
            }
            guard let activator = made ?? nil else {
                pause(100 + below(300))
                continue
            }
            let isRunning = Kept(true)
            let number = promises.services.runs()
            let work = Task {
                do {
                    try await activator.run { [self] in promises.services.isReady(number) }
                } catch { machine.story.note(machine) { "error: \(error)" } }
                isRunning.value = false
            }
            let life = below(3) == 0 && !scenario.isSettling ? below(10_000) : 100_000_000
            _ = machine.wait(until: machine.now + UInt64(life) * 1_000_000) { [self] in !goesOn || !isRunning.value }
            promises.services.stops(number)
            // Each of the services has ten seconds to end.
            let bound = WaitBound(20_000)
            if below(4) == 0 { work.cancel() } else { activator.stop() }
            _ = machine.wait(until: nil) { !isRunning.value }
            promises.services.ended(number)
            bound.check("an activator has ended")
        }
    }

    func askServices() {
        while goesOn {
            guard let names else { return }
            let client = RequestClient(Self.serviceName(below(Self.serviceCount)), nameServer: names)
            wait { [self] in
                for _ in 0...below(6) where goesOn { await askForJob(client) }
            }
            pause(below(scenario.isSettling ? 1_000 : 200))
        }
    }

    /// Looks at the services, and starts and stops them, as `portctl` does.
    func changeServices() {
        while goesOn {
            guard let names else { return }
            let client = ActivatorClient(nameServer: names)
            wait { [self] in await changeServices(client) }
            pause(below(scenario.isSettling ? 2_000 : 400))
        }
    }

    private func changeServices(_ client: ActivatorClient) async {
        let (name, command) = (Self.serviceName(below(Self.serviceCount)), below(8))
        // The others have the timeout of all requests.
        let timeout = 2...6 ~= command ? 1 + below(30_000) : 10_000
        let (bound, begun) = (WaitBound(timeout), promises.services.livingServices(name))
        machine.story.tell(machine) { "gives command \(command) about \(name)" }
        do {
            switch command {
            case 0...1:
                promises.services.check(
                    try await client.services(), atLeast: (0..<Self.serviceCount).map(Self.serviceName))
            case 2...3:
                let status = try await client.start(name, timeout: .milliseconds(timeout))
                if status.startCount == 0, status.phase == .waiting {
                    machine.fail("\(name) is started, and was never")
                }
            case 4...5:
                try await client.stop(name, timeout: .milliseconds(timeout))
                promises.services.stopped(name, begun)
            case 6:
                try await client.restart(name, timeout: .milliseconds(timeout))
                promises.services.stopped(name, begun)
            default: try await reload(client)
            }
            machine.story.tell(machine) { "has looked at \(name)" }
        } catch let error as ServiceFailure {
            promises.services.failed(error)
        } catch {
            machine.story.note(machine) { "error: \(error)" }
        }
        bound.check("command \(command) about \(name) has its outcome")
    }

    /// Changes a file, and lets the activator read it.
    private func reload(_ client: ActivatorClient) async throws {
        switch scenario.isSettling ? 0 : below(6) {
        case 0: for number in 0..<Self.serviceCount { Self.writeService(Self.serviceName(number)) }
        case 1: Self.writeService(Self.serviceName(below(Self.serviceCount)), isRight: false)
        case 2: Self.writeService("other")
        case 3: _ = machine.files.remove(Self.path(ofService: "other"), from: nil, isFolder: false)
        default: break
        }
        _ = try await client.reload()
    }

    private func askForJob(_ client: RequestClient) async {
        let deed: ServicePromises.Deed =
            switch scenario.goesOnCrashing ? 8 + below(4) : below(scenario.isSettling ? 10 : 30) {
            case 1...2: .fail
            case 3...5: .wait
            case 10, 20: .exit
            case 11, 21: .crash
            default: .reply
            }
        let (timeout, begin) = (below(3) == 0 ? below(1_000) : 20_000, machine.now)
        let number = promises.services.asking(deed, timeout: timeout)
        let outcome: Result<Int, any Error>
        do {
            outcome = .success(try await client.request(Job(number: number), timeout: .milliseconds(timeout)))
        } catch {
            outcome = .failure(error)
        }
        let mayFind =
            !process.isExiting && process.isUndisturbed && !promises.isDirectoryLost && !isRemoved(outcome)
        let isSteady = mayFind && promises.services.isSteady(since: begin)
        promises.services.ended(number, outcome, isSteady: isSteady)
    }

    /// Whether a name was not found whose entry somebody has removed. “An owner of a name restores its entry when somebody else
    /// removes it with its folder”: in a moment, and else not.
    private func isRemoved(_ outcome: Result<Int, any Error>) -> Bool {
        guard case .failure(PortError.nameNotFound(let name, _)) = outcome else { return false }
        return promises.names.wasRemoved(name)
    }
}

/// A service, as a process that an activator has started.
final class ServiceWorkload: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    private enum Service: ServiceProgram {
        static var serviceName: String { "service" }
        static func run() async throws {}

        static func serve(_ server: RequestServer) {
            let workload = ServiceWorkload.ofProcess[ObjectIdentifier(machine.current.process)]
            server.handle(Job.self) { job in try await workload?.handle(job.number) ?? 0 }
        }
    }

    nonisolated(unsafe) private static var ofProcess: [ObjectIdentifier: ServiceWorkload] = [:]  // Sound: see above.
    private let process: Process
    private let program: Program
    private let variables: [String: String]

    init(_ process: Process, _ scenario: Scenario, _ variables: [String: String]) {
        (self.process, self.variables) = (process, variables)
        program = Program(process, scenario)
        Self.ofProcess[ObjectIdentifier(process)] = self
    }

    func start() {
        program.promises.services.starts(process, variables[Program.serviceVariable] ?? "")
        program.start { [self] in work() }
    }

    private func work() {
        let fields = variables[CheckIn.variable, default: ""].split(separator: " ", maxSplits: 1).map { String($0) }
        guard fields.count == 2, let number = UInt64(fields[0], radix: 16), let names = program.names else {
            machine.fail("\(process) was not started as a service: \(variables)")
        }
        process.handlesTermination = true
        // A program that does not take its port.
        if program.below(30) == 0 { return program.pause(5_000) }
        let end = Result {
            try program.waitForResult { [self] in
                let desk = try await names.port(forName: fields[1], before: program.after(10_000))
                let service = try await ActivatedService.offered(
                    by: CheckIn(desk: desk, number: number), names, before: program.after(10_000))
                try await Service.run(service) { [self] in await waitForSignal() }
            }
        }
        guard case .failure(let error) = end else { return }
        machine.story.note(machine) { "error: \(error)" }
        machine.exit(process, status: 1)
    }

    /// “Without its activator the service goes on.” So it ends with the machine, too.
    private func waitForSignal() async -> Bool {
        while !process.isAskedToEnd, !program.scenario.isClosing {
            do { try await Task.sleep(for: .milliseconds(20)) } catch { return false }
        }
        return true
    }

    private func handle(_ number: Int) async throws -> Int {
        switch program.promises.services.handling(number) {
        case .reply: break
        case .fail: throw RequestFailure("\(number)")
        case .wait: try await Task.sleep(for: .milliseconds(program.below(300)))
        case .exit: machine.exit(process, status: 3)
        case .crash: machine.kill(process, status: -SIGSEGV)
        }
        return number
    }
}
