@testable import Ports
@testable import RunLoops

/// The program of a simulated process. It sends, asks, takes names and gives them up, until it is killed or told to end.
final class Program: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    let process: Process
    let scenario: Scenario
    private(set) var runtime: PortRuntime?
    private var threads = 0
    private var isEnding = false
    var inboxes: [MachPort] = []
    /// The ports that take messages, and may move.
    var served: [MachPort] = []
    /// The ports that answer requests, and may move.
    var servers: [LocalMessagePort] = []
    var rights: [PortID: MachPort.SendRight] = [:]
    /// Rights that came in messages.
    var received: [MachPort.SendRight] = []
    /// Rights to receive that came in messages.
    var offers: [MachPort.ReceiveRight] = []

    init(_ process: Process, _ scenario: Scenario) { (self.process, self.scenario) = (process, scenario) }

    var promises: Promises { scenario.promises }
    func below(_ bound: Int) -> Int { machine.chance.below(bound) }
    func after(_ milliseconds: Int) -> ContinuousClock.Instant { .now + .milliseconds(milliseconds) }
    func pause(_ milliseconds: Int) { simulatedPause(milliseconds) }
    var names: PortNameServer? { runtime?.nameServer }

    func start() {
        start { [self] in
            if below(3) == 0 { try? runtime?.setReplyLimit(2_000) }
            spawn("inbox") { [self] in takeMessages() }
            spawn("server") { [self] in answer() }
            if scenario.hasMoves { spawn("claimer") { [self] in claimPorts() } }
            if scenario.hasMoves, below(3) == 0 { spawn("racer") { [self] in raceForNames() } }
            for _ in 0...below(2) { spawn("sender") { [self] in sendMessages() } }
            for _ in 0...below(2) { spawn("asker") { [self] in ask() } }
            if below(3) == 0 { spawn("client") { [self] in askByTasks() } }
            if below(2) == 0 { spawn("typed server") { [self] in serveTyped() } }
            if below(2) == 0 { spawn("typed client") { [self] in askTyped() } }
            if below(3) == 0 { spawn("watcher") { [self] in watchNames() } }
            if below(3) == 0 { spawn("lister") { [self] in listNames() } }
            if below(3) == 0 { spawn("inspector") { [self] in inspect() } }
            if below(3) == 0 { spawn("launcher") { [self] in launchWorkers() } }
            if scenario.hasServices, below(2) == 0 { spawn("activator") { [self] in activate() } }
            if scenario.hasServices, below(2) == 0 { spawn("client of services") { [self] in askServices() } }
            if scenario.hasServices, below(3) == 0 { spawn("administrator") { [self] in changeServices() } }
            if scenario.hasSessions, below(2) == 0 { spawn("listener") { [self] in listenForSessions() } }
            if scenario.hasSessions, below(2) == 0 { spawn("client of sessions") { [self] in openSessions() } }
            if scenario.hasPools, below(2) == 0 { spawn("pool") { [self] in runPools() } }
            let lifetime = below(3) == 0 ? UInt64(below(4_000)) * 1_000_000 : .max / 2
            let deadline = machine.now + lifetime
            while !scenario.isClosing, scenario.isSettling || machine.now < deadline { pause(20) }
        }
    }

    /// Starts the process, whose first thread ends it after the body.
    func start(_ body: @escaping () -> Void) {
        machine.makeThread(process, "main") { [self] in
            let sharedMemory: PortRuntime.SharedMemoryUse =
                scenario.hasRings(machine.chance.next()) ? .whenPossible : .never
            if sharedMemory == .never { promises.makesNoRings(process) }
            runtime = PortRuntime(directory: Scenario.directory, sharedMemory: sharedMemory)
            if let incarnation = runtime?.incarnation { promises.begins(as: incarnation) }
            body()
            end()
        }
    }

    func spawn(_ name: String, _ body: @escaping () -> Void) {
        threads += 1
        machine.makeThread(process, name) { [self] in
            body()
            // Before the thread has really ended, when it has no baton.
            LoopCore.endCurrent()
            threads -= 1
        }
    }

    var goesOn: Bool { !isEnding }

    /// Nil after an error, which the story tells.
    func attempt<Value>(_ body: () throws -> Value) -> Value? {
        do {
            return try body()
        } catch {
            machine.story.note(machine) { "error: \(error)" }
            return nil
        }
    }

    // MARK: The end

    private func end() {
        // The process ends with all that its threads do.
        if scenario.hasMoves, !scenario.isSettling, below(3) == 0 { return exit() }
        isEnding = true
        // Nobody takes from them any more, and senders may wait for room.
        endInboxes()
        if !scenario.waitUntil(60_000, { [self] in threads == 0 }) {
            machine.fail("\(process) does not end: \(threads) of its threads go on")
        }
        // A runtime keeps spare descriptors for its end.
        process.mayFail = false
        endInboxes()
        let channels = (rights.values + received).map { Weak($0.channel) }
        rights = [:]
        received = []
        offers = []
        // A moved channel that stays keeps those to all further homes.
        if !scenario.waitUntil(30_000, { !channels.contains { $0.object?.hasMoved.load(ordering: .relaxed) == true } })
        {
            machine.fail("\(process) keeps a channel to a port that has moved on")
        }
        process.hasReleasedRuntime = true
        runtime = nil
        // The condition is looked at by other threads, too.
        let own = machine.current
        if !scenario.waitUntil(30_000, { [self] in threadsOfRuntime(own).isEmpty }) {
            let names = threadsOfRuntime(own).joined(separator: ", ")
            machine.fail("threads of \(process) go on after its runtime's end: \(names)")
        }
        scenario.check(process)
        machine.exit(process)
    }

    /// The log, whose thread may be one of this process, is that of all simulated processes.
    private func threadsOfRuntime(_ own: Thread) -> [String] {
        machine.threads.filter { $0.process === process && $0 !== own }.map(\.name).filter {
            !$0.hasPrefix("tasks") && $0 != "ports log"
        }
    }

    private func exit() {
        machine.story.tell(machine) { "\(process) exits" }
        process.isExiting = true
        // A real exit closes the runtimes of all simulated processes.
        runtime?.close()
        machine.exit(process)
    }

    private func endInboxes() {
        while let port = inboxes.last { end(port) }
    }
}

/// A value that closures change. Only the thread that has the baton does.
final class Kept<Value>: @unchecked Sendable {
    // Sound: see above.
    var value: Value
    init(_ value: Value) { self.value = value }
}

func simulatedPause(_ milliseconds: Int) {
    machine.sleep(UInt64(max(milliseconds, 0)) * 1_000_000)
}
