import Glibc

@testable import Activation
@testable import Ports

/// The promises of services that an activator starts.
final class ServicePromises {
    /// A service's way to end a request.
    enum Deed { case reply, fail, wait, exit, crash }

    private struct Job {
        let asker = machine.current.process
        let deed: Deed
        let end: UInt64
        let bound: WaitBound
        var service: Process?
        var isOver = false
        /// Whether the request may have gone on with its port, whose new home the asker could not find.
        var isOutOfSight = false
    }

    var isDirectoryLost = false

    private var jobs: [Job] = []
    var jobCount: Int { jobs.count }
    private(set) var endCount = 0
    private struct Run {
        let process = machine.current.process
        /// When the names of all services were there; when it was asked to end; and when it had ended, with its services.
        var begin: UInt64?
        var stop: UInt64?
        var end: UInt64?
        var goesOn: Bool { stop == nil && !process.isEnding }
        func wasOver(at time: UInt64) -> Bool { (end ?? process.endTime).map { $0 < time } ?? false }
    }

    /// The runs of activators.
    private var activators: [Run] = []

    // MARK: The activator

    /// - Returns: The activator's number.
    func runs() -> Int {
        activators.append(Run())
        return activators.count - 1
    }

    func isReady(_ number: Int) { activators[number].begin = machine.now }
    func stops(_ number: Int) { activators[number].stop = machine.now }
    func ended(_ number: Int) { activators[number].end = machine.now }

    /// Whether one activator has run since a time, and no other, which nobody has disturbed.
    func isSteady(since time: UInt64) -> Bool {
        let runs = activators.filter { !$0.wasOver(at: time) }
        guard runs.count == 1, let run = runs.first, let begin = run.begin else { return false }
        return run.goesOn && begin < time && run.process.isUndisturbed
            && !machine.processes.contains(where: isOfDeadActivator)
    }

    /// Whether a process is a service whose activator was killed. Its name is nobody's after its end.
    private func isOfDeadActivator(_ service: Process) -> Bool {
        activators.contains { $0.process === service.parent && $0.process.isDead }
    }

    /// Whether an activator runs, and some program asks for its services.
    var isAwaited: Bool {
        jobs.contains { !$0.isOver && !$0.asker.isEnding }
            && activators.contains(where: \.goesOn)
    }

    // MARK: The service

    private var services: [(process: Process, name: String)] = []

    func starts(_ process: Process, _ name: String) { services.append((process, name)) }

    /// The processes of a service of the only activator that runs; none while there are several.
    func livingServices(_ name: String) -> [Process] {
        let running = activators.filter(\.goesOn)
        guard running.count == 1, let activator = running.first?.process else { return [] }
        return services.filter { $0.name == name && !$0.process.isDead && $0.process.parent === activator }.map(
            \.process)
    }

    // MARK: Commands

    func check(_ all: [ServiceStatus], atLeast names: [String]) {
        let listed = all.map(\.name)
        if listed != listed.sorted() { machine.fail("services are listed in the order \(listed)") }
        for name in names where !listed.contains(name) { machine.fail("\(name) is not among the services \(listed)") }
        for status in all where status.lastFailure == nil {
            if case .failed = status.phase { machine.fail("\(status.name) has failed without a reason") }
        }
    }

    /// “Asks a service to end, and returns when it has.”
    /// - Parameter begun: The processes of the service when the command began.
    func stopped(_ name: String, _ begun: [Process]) {
        let living = livingServices(name)
        let left = begun.filter { service in living.contains { $0 === service } }
        if !left.isEmpty { machine.fail("\(name) is stopped, and \(left) goes on") }
    }

    func failed(_ failure: ServiceFailure) {
        let begins = [
            "the service “", "there is no service “", "the activator has ended", "process ", "another process ",
            Program.folder,
        ]
        if !begins.contains(where: failure.text.hasPrefix) { machine.fail("a command has failed: \(failure)") }
    }

    // MARK: Jobs

    func handling(_ number: Int) -> Deed {
        let process = machine.current.process
        machine.story.tell(machine) { "does service job \(number): \(jobs[number].deed)" }
        if jobs[number].service != nil { machine.fail("service job \(number) was done twice") }
        if jobs[number].isOver, !jobs[number].isOutOfSight, machine.now < jobs[number].end {
            machine.fail("service job \(number) has its outcome, and is done")
        }
        jobs[number].service = process
        return jobs[number].deed
    }

    // MARK: The asker

    func asking(_ deed: Deed, timeout: Int) -> Int {
        machine.story.tell(machine) { "asks for service job \(jobs.count): \(deed)" }
        jobs.append(Job(deed: deed, end: machine.now + UInt64(timeout) * 1_000_000, bound: WaitBound(timeout)))
        return jobs.count - 1
    }

    /// - Parameter isSteady: Whether the asker finds the activator, as far as anybody knows.
    func ended(_ number: Int, _ outcome: Result<Int, any Error>, isSteady: Bool) {
        machine.story.tell(machine) { "has the outcome of service job \(number): \(outcome)" }
        let job = jobs[number]
        jobs[number].isOver = true
        endCount += 1
        job.bound.check("service job \(number) has its outcome")
        switch outcome {
        case .success(let reply):
            if reply != number || ![.reply, .wait].contains(job.deed) || job.service == nil {
                machine.fail("service job \(number) has the reply \(reply)")
            }
        case .failure(PortError.failed(_, let failure)):
            // “The error names the service, and how it has ended.”
            let isOwn = failure.text == "\(number)" && job.deed == .fail && job.service != nil
            if !isOwn, !failure.text.hasPrefix("the service “") {
                machine.fail("service job \(number) has the failure of another: \(failure)")
            }
        case .failure(PortError.receiveTimedOut), .failure(PortError.sendTimedOut):
            if machine.now < job.end { machine.fail("service job \(number) has timed out early") }
        // The first use of a right has to connect. A stopped service may not let it do that before the timeout.
        case .failure(PortError.cannotConnect) where machine.now >= job.end: break
        // “With a lowered limit, the process refuses new peers.”
        case .failure(PortError.cannotConnect) where services.contains(where: { $0.process.failedCalls > 0 }): break
        // “The homes of ports that have moved are lost with the directory”, and “the rights of other processes […] end”.
        case .failure(PortError.becameInvalid) where isDirectoryLost: jobs[number].isOutOfSight = true
        case .failure(let error):
            // While an activator keeps the name, nothing else can happen. A service that exits cancels its handlers.
            guard isSteady, job.deed != .exit,
                job.service.map({ $0.isUndisturbed && $0.status == -SIGKILL }) ?? true
            else { return }
            machine.fail("service job \(number) got: \(error)")
        }
    }
}
