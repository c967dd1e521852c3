@testable import Ports
@testable import RunLoops

// The workers of a program: threads, and other processes, that check in.

extension Program {
    func launchWorkers() {
        while goesOn {
            if let names, let parent = attempt({ try makePort(names) }) {
                inboxes.append(parent)
                spawn("box of workers") { [self] in takeMessages(of: parent) }
                if below(2) == 0 { launchThread(parent, names) } else { launchProcess(parent, names) }
                end(parent)
            }
            pause(200 + below(1_000))
        }
    }

    fileprivate func takeMessages(of port: MachPort) {
        while goesOn, port.isValid {
            if let message = try? port.receive(before: after(50)) { check(message, port) }
        }
    }

    // MARK: Threads

    private func launchThread(_ parent: MachPort, _ names: PortNameServer) {
        let worker = attempt {
            try WorkerThread.start(name: "worker", port: parent.sendRight, nameServer: names) { [self] checkIn in
                let port = try makePort(names)
                port.setHandler { [weak self, weak port] in if let self, let port { check($0, port) } }
                let right = try checkIn.complete(with: port, before: after(1 + below(2_000)))
                if right.id != parent.id { machine.fail("a worker got the right to another port than its launcher's") }
                try port.schedule(in: .current)
            }
        }
        guard let worker else { return }
        if let right = attempt({ try worker.checkIn(before: after(1 + below(2_000))) }) {
            sendMessages(to: right)
        }
        worker.thread.stop()
        worker.thread.join()
    }

    // MARK: Processes

    /// As `WorkerProcess` does, whose child would be a program of the real machine.
    private func launchProcess(_ parent: MachPort, _ names: PortNameServer) {
        let desk = names.runtime.checkInDesk
        guard let name = attempt({ try desk.registeredName(names) }) else { return }
        let expectation = CheckInExpectation("worker", pid: nil, parent: parent.sendRight)
        guard let checkIn = attempt({ try desk.expect(expectation, names) }) else { return }
        let worker = Worker(scenario.makeWorker(), scenario, name, checkIn.number, parent: parent.id)
        // Now and then another process than the expected one checks in.
        let isExpected = below(8) != 0
        _ = try? expectation.start { () throws(CheckInError) in
            worker.start()
            return isExpected ? worker.process.pid : process.pid
        }
        let right = attempt { try expectation.wait(before: MonotonicInstant(after(1 + below(3_000)))) }
        desk.forget(checkIn)
        if let right {
            if !isExpected { machine.fail("\(worker.process) checked in as another process") }
            if right.id != worker.port { machine.fail("a launcher got the right to another port than its worker's") }
            watch(right)
            sendMessages(to: right)
            pause(below(2_000))
        }
    }
}

/// A process that another has launched. It checks in, sends to its launcher, and takes messages, until the launcher's port
/// ends.
private final class Worker: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    let process: Process
    private(set) var port: PortID?
    private let program: Program
    private let desk: String
    private let number: UInt64
    private let parent: PortID

    init(_ process: Process, _ scenario: Scenario, _ desk: String, _ number: UInt64, parent: PortID) {
        (self.process, self.desk, self.number, self.parent) = (process, desk, number, parent)
        program = Program(process, scenario)
    }

    func start() { program.start { [self] in work() } }

    private func work() {
        guard let names = program.names, let own = program.attempt({ try program.makePort(names) }) else { return }
        program.inboxes.append(own)
        port = own.id
        let right = program.attempt {
            let desk = try names.port(forName: desk, before: program.after(5_000))
            return try CheckIn(desk: desk, number: number).complete(with: own, before: program.after(5_000))
        }
        guard let right else { return }
        if right.id != parent { machine.fail("\(process) got the right to another port than its launcher's") }
        let hasEnded = Kept(false)
        right.onInvalidation { hasEnded.value = true }
        program.watch(right)
        program.spawn("inbox") { [program] in program.takeMessages(of: own) }
        program.sendMessages(to: right)
        while !hasEnded.value, !program.scenario.isClosing { program.pause(20) }
    }
}
