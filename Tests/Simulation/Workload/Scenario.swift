@testable import Ports

/// One seed's life of a machine: programs start, and are killed, stopped and started again; then the faults end, and all has
/// to go on; then everybody ends, and nothing may be left.
final class Scenario: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    static let directory = "/sim/ports"
    private static let movedDirectory = "/sim/moved"

    let promises = Promises()
    let nameCount: Int
    /// Whether ports move from program to program.
    let hasMoves = machine.seed % 3 == 0
    /// Whether programs have pools of workers.
    let hasPools = machine.seed % 5 == 0
    /// Whether programs have services that are started on demand.
    let hasServices = machine.seed % 7 == 0
    /// Whether services crash so often that their activator gives up for a while.
    private let crashes = machine.seed % 28 == 0
    var goesOnCrashing: Bool { crashes && promises.services.jobCount < 60 }
    /// Whether programs have XPC sessions.
    let hasSessions = machine.seed % 11 == 0
    private(set) var isClosing = false
    /// Whether nothing more is started or killed.
    private(set) var isSettling = false
    private let programCount: Int
    private let ringShare: Int
    private let steps: Int
    private var programs: [Program] = []
    private var lastProgram = 0
    private var workers: [Process] = []
    private var hostile: HostileProgram?

    init(steps: Int) {
        self.steps = steps
        programCount = machine.chance.number(in: 3...8)
        nameCount = machine.chance.number(in: 1...4)
        ringShare = machine.chance.pick([0, 2, 4, 4])
    }

    /// In some machines, names that their folders cannot have.
    func boxName(_ number: Int) -> String {
        "box \(number)" + (machine.seed % 16 == 0 ? String(repeating: " of many", count: 30) : "")
    }
    func typedName(_ number: Int) -> String { "typed \(number)" }
    func serverName(_ number: Int) -> String { "server \(number)" }
    /// Whether a process sends by rings.
    func hasRings(_ number: UInt64) -> Bool { number % 4 < UInt64(ringShare) }

    /// Whether the pid is that of the hostile process.
    func isHostile(_ pid: Int32?) -> Bool { pid != nil && pid == hostile?.process.pid }
    /// A right that leads to the hostile process.
    var hostileRight: WireRight? { hostile?.owner?.right }

    var hasHostile: Bool { hostile != nil }

    private func start() {
        lastProgram += 1
        let process = machine.makeProcess("p\(lastProgram)")
        if machine.chance.oneIn(hasMoves ? 2 : 3) {
            process.memoryLimit = UInt64(machine.chance.pick([8, 100, 1_000])) << 20
        }
        if machine.chance.oneIn(10) { process.fileLimit = UInt64(machine.chance.pick([500, 1_100, 5_000])) << 10 }
        let program = Program(process, self)
        programs.append(program)
        program.start()
        noteVictims()
    }

    /// Makes the process of a worker, which may be killed as others are.
    func makeWorker() -> Process {
        let process = machine.makeProcess("w\(workers.count + 1)")
        workers.append(process)
        noteVictims()
        return process
    }

    private func noteVictims() {
        machine.faults.victims = programs.map(\.process) + workers.filter { !$0.isDead }
    }

    /// Waits for a time in which the machine works.
    /// - Returns: Whether it came true.
    func waitUntil(_ milliseconds: Int, _ isTrue: @escaping () -> Bool) -> Bool {
        var end = machine.now + UInt64(milliseconds) * 1_000_000
        while true {
            let slept = machine.slept
            if machine.wait(until: end, isTrue) { return true }
            if machine.slept == slept { return false }
            end += machine.slept - slept
        }
    }

    func run() {
        machine.entryRemover = { [self] in removeEntry() }
        machine.directoryRemover = { [self] in
            promises.lostDirectory()
            machine.files.removeAll(Self.directory)
        }
        machine.directoryMover = { [self] in moveDirectory(for: $0) }
        machine.killer = { [self] worker in
            // The sockets of a removed directory lead nowhere.
            if !promises.isDirectoryLost { promises.pools.kills(worker) }
        }
        machine.programs[Program.workerPath] = { [self] variables, crash in
            let process = makeWorker()
            promises.pools.starts(process)
            PoolWorkerProgram(process, self, variables, crash).start()
            return process
        }
        machine.programs[Program.servicePath] = { [self] variables, _ in
            let process = makeWorker()
            ServiceWorkload(process, self, variables).start()
            return process
        }
        if hasServices { Program.writeServices() }
        for _ in 0..<programCount { start() }
        if machine.chance.oneIn(4) {
            hostile = HostileProgram(machine.makeProcess("hostile"), self)
            hostile?.start()
        }
        simulatedPause(machine.chance.below(200))
        machine.faults.isOn = true
        while machine.steps < steps {
            simulatedPause(machine.chance.number(in: 1...100))
            restart()
        }
        machine.faults.isOn = false
        isSettling = true
        restart()
        settle()
        close()
    }

    /// Starts programs in place of those that have ended, or are ending.
    private func restart() {
        programs.removeAll { $0.process.isDead }
        noteVictims()
        while programs.count(where: \.goesOn) < programCount {
            promises.noteRestart()
            start()
        }
    }

    /// Somebody removes the entry of a name. If the name's folder is removed, too, its owner then restores both, unless
    /// another has taken the name meanwhile.
    private func removeEntry() {
        let entries = machine.files.paths(below: Self.directory + "/names").filter { $0.dropFirst().contains("/") }
        guard let entry = entries.randomElement(using: &machine.chance) else { return }
        let folder = String(entry.dropFirst().prefix { $0 != "/" })
        let isWhole = machine.chance.oneIn(2)
        machine.story.tell(machine) { "\(isWhole ? folder : entry) is removed" }
        promises.names.lost(folder, isRestored: isWhole)
        _ = machine.files.remove(Self.directory + "/names" + entry, from: nil, isFolder: false)
        if isWhole { _ = machine.files.remove(Self.directory + "/names/" + folder, from: nil, isFolder: true) }
    }

    /// Somebody moves the directory away. Another may be made in its place, before it comes back.
    private func moveDirectory(for nanoseconds: UInt64) {
        guard !machine.files.exists(Self.movedDirectory) else { return }
        promises.lostDirectory()
        _ = machine.files.rename(Self.directory, nil, to: Self.movedDirectory, nil)
        machine.perform(after: nanoseconds) { [self] in
            promises.lostDirectory()
            machine.files.removeAll(Self.directory)
            _ = machine.files.rename(Self.movedDirectory, nil, to: Self.directory, nil)
        }
    }

    /// Without faults, all that was promised comes true within bounded time.
    private func settle() {
        _ = waitUntil(20_000) {
            machine.processes.allSatisfy { !$0.isStopped && $0.state != .exiting }
                && !machine.files.exists(Self.movedDirectory)
        }
        let (begun, asked) = (promises.begun, promises.requests.count)
        require(promises.untold)
        require(promises.vanished)
        require(promises.unreturned)
        require(promises.unended(begun))
        require(promises.requests.unended(of: asked))
        require(promises.missing(begun))
        require(promises.names.unrestored)
        require(promises.sessions.unended)
        let (requests, names) = (promises.counts.replies, promises.counts.received)
        if !waitUntil(60_000, { [self] in promises.counts.replies > requests }) {
            machine.fail("no request is answered")
        }
        if !waitUntil(60_000, { [self] in promises.counts.received > names }) { machine.fail("no message comes") }
        let jobs = promises.pools.doneCount
        if promises.pools.isRunning, !waitUntil(60_000, { [self] in promises.pools.doneCount > jobs }) {
            machine.fail("no job is done")
        }
        if crashes, promises.services.isAwaited { _ = waitUntil(20_000) { [self] in !goesOnCrashing } }
        let served = promises.services.endCount
        // A service that has failed too often is not started for a minute, and its askers hear that.
        if promises.services.isAwaited, !waitUntil(60_000, { [self] in promises.services.endCount > served }) {
            machine.fail("no service job has an outcome")
        }
        let outcomes = promises.sessions.outcomeCount
        if promises.sessions.isBusy, !waitUntil(60_000, { [self] in promises.sessions.outcomeCount > outcomes }) {
            machine.fail("no request of a session has an outcome")
        }
        // A hostile process cannot prevent moves, but for one without rings, which does not answer.
        // Nobody may be left to take the ports of the last process that offers any.
        let claims = promises.claimCount
        if hasMoves, !waitUntil(120_000, { [self] in promises.claimCount > claims }) { machine.fail("no port moves") }
    }

    /// Waits a minute until a list of problems is empty.
    private func require(_ problems: @autoclosure () -> [String]) {
        if let first = problems().first { machine.story.tell(machine) { "waits, because \(first)" } }
        // Seldom, because a look takes its time.
        for _ in 0..<3_000 {
            if problems().isEmpty { return }
            simulatedPause(20)
        }
        if let first = problems().first { machine.fail(first) }
    }

    private func close() {
        isClosing = true
        // A program may start another worker before it ends.
        func left() -> [Process] {
            (programs.map(\.process) + workers + [hostile?.process].compactMap(\.self)).filter { $0.state != .gone }
        }
        if !waitUntil(180_000, { left().isEmpty }) {
            let names = left().map { "\($0)" }.joined(separator: ", ")
            machine.fail("\(names) did not end")
        }
        sweep()
    }

    /// A last process removes the files of the killed ones. Then nothing is left.
    private func sweep() {
        let process = machine.makeProcess("sweeper")
        machine.makeThread(process, "main") {
            do {
                let runtime = PortRuntime(directory: Self.directory)
                _ = try runtime.nameServer.sweep()
            } catch {
                machine.fail("the sweep failed: \(error)")
            }
            machine.exit(process)
        }
        if !waitUntil(60_000, { process.state == .gone }) { machine.fail("the sweep does not end") }
        let folders = ["/names", "/homes", "/moves", "/loans"]
        let left = machine.files.paths(below: Self.directory).filter { path in
            !folders.contains(path) && !HostileFiles.isOne(path)
        }
        if !left.isEmpty { machine.fail("files are left: \(left.joined(separator: ", "))") }
        if let open = promises.leftOpen.first { machine.fail(open) }
    }

    /// An ended process has closed everything.
    func check(_ process: Process) {
        let open = process.descriptors.sorted { $0.key < $1.key }
        // The guard of `accept4` keeps a spare one for all processes here, and makes another after it was needed.
        let isSpare = open.count <= 1 + machine.faults.refusedAccepts && open.allSatisfy { $0.value is EventFile }
        if !open.isEmpty, !isSpare {
            machine.fail(
                "\(process) has left open: \(open.map { "\($0.key) \(type(of: $0.value))" }.joined(separator: ", "))")
        }
        if process.mappedCount > 0 { machine.fail("\(process) has left \(process.mappedCount) rings mapped") }
    }
}
