import Glibc

/// The faults that a seed chooses.
struct Faults {
    /// Kinds of calls that may fail.
    enum Call { case make, open, descriptor, accept, send }

    /// Whether faults happen now. They end before the promises about a quiet machine are checked.
    var isOn = false
    private var chance: Chance
    /// The calls between two faults of a kind, on average; nil for none. Each seed has other numbers.
    private var kills: Int?
    private var stops: Int?
    private var errors: Int?
    private var others: Int?
    /// The processes that may be killed and stopped.
    var victims: [Process] = []
    private(set) var killCount = 0
    private(set) var refusedAccepts = 0
    var mostKills: Int

    init(seed: UInt64) {
        var chance = Chance(seed: seed ^ 0xfa17)
        func rate(_ often: Int, _ seldom: Int) -> Int? { chance.oneIn(3) ? nil : chance.number(in: often...seldom) }
        (kills, stops, errors) = (rate(60, 1_500), rate(60, 1_500), rate(40, 2_000))
        others = rate(60, 1_500)
        mostKills = chance.below(6)
        self.chance = chance
    }

    enum Action {
        case stop(Process, nanoseconds: UInt64)
        case kill(Process)
        /// A control connection ends, and both processes live.
        case cut(Process)
        /// The process forks, and for a while the child has all its descriptors.
        case fork(Process, nanoseconds: UInt64)
        /// Somebody removes the entry of a name.
        case removeEntry
        /// The machine does nothing for a while.
        case sleep(nanoseconds: UInt64)
    }

    /// The fault at a call that others see.
    mutating func next(at process: Process) -> Action? {
        guard isOn else { return nil }
        if let stops, chance.oneIn(stops), let victim = victim(process) {
            let milliseconds = chance.oneIn(3) ? chance.number(in: 0...8_000) : chance.number(in: 0...50)
            return .stop(victim, nanoseconds: UInt64(milliseconds) * 1_000_000)
        }
        if let kills, killCount < mostKills, chance.oneIn(kills), let victim = victim(process), !victim.isDead {
            killCount += 1
            return .kill(victim)
        }
        guard let others, chance.oneIn(others), let victim = victim(process), !victim.isDead else { return nil }
        switch chance.below(8) {
        case 0...2: return .cut(victim)
        case 3...5: return .fork(victim, nanoseconds: UInt64(chance.number(in: 0...200)) * 1_000_000)
        case 6: return .removeEntry
        default: return .sleep(nanoseconds: UInt64(chance.number(in: 1...3_000)) * 1_000_000_000)
        }
    }

    /// The process that makes the call, or any other.
    private mutating func victim(_ process: Process) -> Process? {
        let victim = chance.oneIn(2) ? process : victims.randomElement(using: &chance)
        return victims.first { $0 === victim }
    }

    /// The error of a call, if it fails.
    mutating func error(_ call: Call) -> Int32? {
        guard isOn, machine.current.process.mayFail, let errors, chance.oneIn(errors) else { return nil }
        if call == .accept { refusedAccepts += 1 }
        return switch call {
        case .make: chance.pick([ENOSPC, EMFILE, EACCES])
        case .open: EMFILE
        case .descriptor, .accept: EMFILE
        case .send: chance.pick([ENOBUFS, EAGAIN, EINTR])
        }
    }
}
