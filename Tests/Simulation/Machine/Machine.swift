import Glibc
import SimulatedCalls

/// The one machine of a run.
nonisolated(unsafe) var machine = Machine(seed: 0)  // Only the thread that has the baton uses it.

/// A machine of several processes, whose threads run one at a time: a thread has the baton until it waits, and then the
/// seed decides who gets it next. Time passes only here.
final class Machine {
    let seed: UInt64
    var chance: Chance
    static let start: UInt64 = 1_000_000_000_000
    private(set) var now = start
    private(set) var processes: [Process] = []
    private(set) var threads: [Thread] = []
    /// When each of the threads has to be looked at. Beside them, because a look at each thread would take most of the time.
    private var lookTimes: [UnsafeMutablePointer<UInt64>] = []
    private(set) var current: Thread
    /// The time for which the machine has done nothing.
    private(set) var slept: UInt64 = 0
    /// The time without the sleeps.
    var timeAwake: UInt64 { now - slept }
    /// Changes when the machine sleeps, and when a process is stopped or goes on.
    var lostTime: UInt64 { slept + processes.reduce(0) { $0 + $1.stoppedTime + ($1.isStopped ? 1 : 0) } }
    /// The time that the clock on the wall is ahead of ``now``.
    private(set) var wallClock: UInt64 = 1_700_000_000_000_000_000
    /// The decisions who goes on.
    private(set) var steps = 0
    let files = FileSystem()
    var faults: Faults
    let story: Story
    /// Later changes that no thread makes.
    private var events: [(time: UInt64, act: () -> Void)] = []
    private var nextEvent = UInt64.max
    private var lastThread = 0
    /// The carriers of threads that have ended, the first one longest ago.
    private var idleCarriers: [Carrier] = []
    private var carrierCount: Int32 = 1

    /// The threads of the simulator itself belong to this process, which makes no calls.
    private let director: Process

    init(seed: UInt64, story: Story = Story(), skippedFaults: Set<Int> = []) {
        self.seed = seed
        self.story = story
        chance = Chance(seed: seed)
        faults = Faults(seed: seed, skipped: skippedFaults)
        director = Process(name: "director", pid: 1, place: 0, startTime: 0)
        current = Thread(director, number: 0, name: "director", Carrier(number: 1000, isStarted: true))
        add(current)
    }

    // MARK: Processes and threads

    func makeProcess(_ name: String) -> Process {
        let used = Set(processes.filter(\.hasNumber).map(\.pid))
        var pid: Int32
        // Few numbers, so that they are used again, but more than processes.
        let last = used.count < 36 ? 140 : 140 + used.count
        repeat { pid = Int32(chance.number(in: 100...last)) } while used.contains(pid)
        let process = Process(name: name, pid: pid, place: processes.count + 1, startTime: now / 10_000_000)
        processes.append(process)
        return process
    }

    @discardableResult
    func makeThread(_ process: Process, _ name: String, _ body: @escaping () -> Void) -> Thread {
        startThread(process, name) {
            body()
            return nil
        }
    }

    /// - Parameter body: Returns the thread's result.
    func startThread(
        _ process: Process, _ name: String, _ body: @escaping () -> UnsafeMutableRawPointer?
    ) -> Thread {
        lastThread += 1
        let thread = Thread(process, number: lastThread, name: name, idleCarrier())
        thread.start(body)
        add(thread)
        return thread
    }

    private func add(_ thread: Thread) {
        threads.append(thread)
        lookTimes.append(thread.lookTime)
    }

    private func idleCarrier() -> Carrier {
        // Numbers of threads are not used again at once.
        if idleCarriers.count > 16 { return idleCarriers.removeFirst() }
        carrierCount += 1
        return Carrier(number: 1000 + carrierCount)
    }

    /// Waits for a thread's end, and returns its result.
    func join(_ number: Int) -> UnsafeMutableRawPointer? {
        guard let thread = threads.first(where: { $0.number == number }) ?? ended[number] else { return nil }
        _ = wait(until: nil) { thread.hasEnded }
        return thread.result
    }

    private var ended: [Int: Thread] = [:]

    /// Told before a process kills another.
    var killer: (Process) -> Void = { _ in }

    /// A program that processes start, by its path.
    /// - Returns: The process, of the variables of its environment and the file by which it reports a crash.
    var programs: [String: (_ variables: [String: String], _ crash: EventFile?) -> Process] = [:]

    /// Removes the entry of a name. The scenario knows where entries are.
    var entryRemover: () -> Void = {}
    var directoryRemover: () -> Void = {}
    var directoryMover: (_ nanoseconds: UInt64) -> Void = { _ in }

    func perform(after nanoseconds: UInt64, _ act: @escaping () -> Void) {
        events.append((now + nanoseconds, act))
        nextEvent = min(nextEvent, now + nanoseconds)
    }

    // MARK: The baton

    /// Lets the calling thread wait.
    /// - Parameters:
    ///   - deadline: The end of the wait.
    ///   - files: The files that it waits for; nil when anything may make it ready.
    /// - Returns: Whether it is ready.
    func wait(until deadline: UInt64?, for files: [OpenFile]? = nil, _ isReady: @escaping () -> Bool) -> Bool {
        let thread = current
        thread.beginWait(until: deadline, for: files, isReady)
        passBaton()
        thread.endWait()
        return isReady()
    }

    func sleep(_ nanoseconds: UInt64) { _ = wait(until: now + nanoseconds, for: []) { false } }

    /// A call that others see. The seed may let others go first, or let a fault happen.
    func step(_ call: @autoclosure () -> String) {
        now += UInt64(chance.below(2_000))
        if chance.oneIn(512) { now += UInt64(chance.below(5_000_000)) }
        story.note(self, call)
        if let (number, action) = faults.next(at: current.process) { perform(action, number) }
        if chance.oneIn(3) || current.process.isStopped { passBaton() }
    }

    /// Told the number of faults.
    var faultCount: UnsafeMutablePointer<Int64>?

    private func perform(_ action: Faults.Action, _ number: Int) {
        faultCount?.pointee = Int64(number)
        switch action {
        case .stop(let process, let nanoseconds):
            story.note(fault: number, self) { "\(process) is stopped for \(nanoseconds / 1_000_000) ms" }
            stop(process, for: nanoseconds)
        case .kill(let process):
            story.note(fault: number, self) { "\(process) is killed" }
            kill(process)
        case .cut(let process):
            story.note(fault: number, self) { "a control connection of \(process) is cut" }
            process.cutConnection()
        case .fork(let process, let nanoseconds):
            story.note(fault: number, self) {
                "\(process) forks, and its child lives for \(nanoseconds / 1_000_000) ms"
            }
            process.fork(for: nanoseconds)
        case .removeEntry:
            story.note(fault: number, self) { "somebody removes the entry of a name" }
            entryRemover()
        case .removeDirectory:
            story.note(fault: number, self) { "somebody removes the registry directory" }
            directoryRemover()
        case .moveDirectory(let nanoseconds):
            story.note(fault: number, self) {
                "somebody moves the registry directory away for \(nanoseconds / 1_000_000) ms"
            }
            directoryMover(nanoseconds)
        case .setClock(let seconds):
            story.note(fault: number, self) { "somebody sets the clock by \(seconds) s" }
            wallClock &+= UInt64(bitPattern: Int64(seconds) * 1_000_000_000)
        case .sleep(let nanoseconds):
            story.note(fault: number, self) { "the machine does nothing for \(nanoseconds / 1_000_000_000) s" }
            now += nanoseconds
            slept += nanoseconds
        }
    }

    /// The error of the calling thread's call, below zero, if the seed lets it fail.
    func error(_ call: Faults.Call) -> Int32? {
        guard let (number, error) = faults.error(call, of: current.process) else { return nil }
        faultCount?.pointee = Int64(number)
        current.process.failedCalls += 1
        story.note(fault: number, self) { "a call of \(current.process) fails: \(String(cString: strerror(error)))" }
        return -error
    }

    /// Lets other threads go first. A thread of a dead process does not come back.
    func passBaton() {
        let former = current
        let next = nextThread()
        steps += 1
        if steps - lastLook.steps >= 200_000 { lookForSpin(next) }
        guard next !== former else { return }
        current = next
        former.carrier.pass(to: next.carrier)
    }

    private var lastLook = (steps: 0, now: start)

    /// A thread that waits for nothing leaves no time to others.
    private func lookForSpin(_ thread: Thread) {
        let time = (now - lastLook.now) / 1_000_000
        if time < 10 {
            fail("\(thread.process) \(thread.name) and others take \(steps - lastLook.steps) turns in \(time) ms")
        }
        lastLook = (steps, now)
    }

    private func nextThread() -> Thread {
        while true {
            runEvents()
            var ready: [Thread] = []
            var soonest = nextEvent
            for (index, time) in lookTimes.enumerated() {
                if time.pointee > now {
                    soonest = min(soonest, time.pointee)
                    continue
                }
                let thread = threads[index]
                guard thread.mayRun else { continue }
                if thread.isReady(at: now) { ready.append(thread) } else { soonest = min(soonest, thread.nextTime) }
            }
            if !ready.isEmpty { return ready[chance.below(ready.count)] }
            guard soonest != .max else { fail("nothing will ever happen again: all threads wait") }
            now = max(now, soonest)
        }
    }

    private func runEvents() {
        while nextEvent <= now, let index = events.firstIndex(where: { $0.time == nextEvent }) {
            let event = events.remove(at: index)
            nextEvent = events.reduce(.max) { min($0, $1.time) }
            event.act()
        }
    }

    /// The calling thread has ended.
    func endThread() {
        current.hasEnded = true
        ended[current.number] = current
        remove { $0 === current }
        idleCarriers.append(current.carrier)
        passBaton()
    }

    private func remove(_ isMeant: (Thread) -> Bool) {
        threads.removeAll(where: isMeant)
        lookTimes = threads.map(\.lookTime)
    }

    // MARK: Ends

    /// Ends a process as SIGKILL does: its threads do nothing more, and a moment later its descriptors close, one by one.
    /// - Parameter status: An exit status, or a signal below zero.
    func kill(_ process: Process, status: Int32 = -SIGKILL) {
        end(process, status)
        if process.isDead, current.process === process {
            current.hasEnded = true
            passBaton()
        }
    }

    private func end(_ process: Process, _ status: Int32) {
        guard process.state == .running else { return }
        story.tell(self) { "\(process) is dead" }
        (process.state, process.status) = (.exiting, status)
        process.isStopped = false
        remove { $0.process === process }
        process.detachMemory()
        closeNext(process)
        for child in processes where child.parent === process && child.endsWithParent {
            perform(after: UInt64(chance.below(50_000))) { [self] in end(child, -SIGKILL) }
        }
    }

    /// Sends a signal that ends a process.
    func signal(_ process: Process, _ signal: Int32) {
        if signal == SIGKILL || !process.handlesTermination && !process.isStopped {
            return kill(process, status: -signal)
        }
        if process.handlesTermination { return process.isAskedToEnd = true }
        // A stopped process ends when it goes on.
        perform(after: 20_000_000) { [self] in
            if process.isStopped || process.handlesTermination {
                self.signal(process, signal)
            } else {
                end(process, -signal)
            }
        }
    }

    private func closeNext(_ process: Process) {
        perform(after: UInt64(chance.below(chance.oneIn(4) ? 5_000_000 : 50_000))) { [self] in
            if let number = process.descriptors.keys.sorted().randomElement(using: &chance) {
                _ = process.close(number)
                closeNext(process)
            } else {
                process.state = .gone
                story.note(self) { "\(process) is gone" }
            }
        }
    }

    /// The process's own end, after its last thread's last call.
    func exit(_ process: Process, status: Int32 = 0) { kill(process, status: status) }

    func stop(_ process: Process, for nanoseconds: UInt64) {
        guard process.state == .running, !process.isStopped else { return }
        process.isStopped = true
        let begin = now
        perform(after: nanoseconds) { [self] in
            story.tell(self) { "\(process) goes on" }
            process.isStopped = false
            process.stoppedTime += now - begin
        }
    }

    /// A promise is broken: tells the seed, and ends the simulator's process.
    func fail(_ problem: String) -> Never { story.fail(self, problem) }
}
