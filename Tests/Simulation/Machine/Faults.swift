import Glibc

/// The faults that a seed chooses. Each has a number, so that a run without some of them shows which ones matter.
struct Faults {
    /// Kinds of calls that may fail.
    enum Call { case make, open, descriptor, memory, accept, send }

    enum Action {
        case stop(Process, nanoseconds: UInt64)
        case kill(Process)
        /// A control connection ends, and both processes live.
        case cut(Process)
        /// The process forks, and for a while the child has all its descriptors.
        case fork(Process, nanoseconds: UInt64)
        /// Somebody removes the entry of a name.
        case removeEntry
        /// Somebody removes the registry directory with all that is in it.
        case removeDirectory
        /// Somebody moves the registry directory away for a while.
        case moveDirectory(nanoseconds: UInt64)
        /// Somebody sets the clock on the wall.
        case setClock(seconds: Int)
        /// The machine does nothing for a while.
        case sleep(nanoseconds: UInt64)
    }

    /// Chooses when a kind of fault happens. The kinds do not share their numbers, so that one can be left out.
    private struct Kind {
        var chance: Chance
        /// The calls between two faults, on average; nil for none. Each seed has other numbers.
        let rate: Int?

        init(_ seed: UInt64, _ kind: UInt64, _ rates: ClosedRange<Int>) {
            chance = Chance(seed: seed ^ kind << 56)
            rate = chance.oneIn(3) ? nil : chance.number(in: rates)
        }

        mutating func comes() -> Bool { rate.map { chance.oneIn($0) } ?? false }
    }

    /// Whether faults happen now. They end before the promises about a quiet machine are checked.
    var isOn = false
    /// The processes that may be killed and stopped.
    var victims: [Process] = []
    /// The numbers of faults that are left out.
    let skipped: Set<Int>
    private(set) var count = 0
    private(set) var refusedAccepts = 0
    private(set) var refusedMemory = 0

    private var kills: Kind
    private var stops: Kind
    private var errors: Kind
    private var others: Kind
    private var killsLeft: Int

    init(seed: UInt64, skipped: Set<Int> = []) {
        self.skipped = skipped
        kills = Kind(seed, 1, 60...1_500)
        stops = Kind(seed, 2, 60...1_500)
        errors = Kind(seed, 3, 40...2_000)
        others = Kind(seed, 4, 60...1_500)
        killsLeft = kills.chance.below(6)
    }

    /// The fault at a call that others see.
    mutating func next(at process: Process) -> (number: Int, action: Action)? {
        guard isOn, let action = nextAction(at: process) else { return nil }
        count += 1
        return skipped.contains(count) ? nil : (count, action)
    }

    private mutating func nextAction(at process: Process) -> Action? {
        if stops.comes(), let victim = victim(process, &stops.chance) {
            let milliseconds = stops.chance.oneIn(3) ? stops.chance.below(8_000) : stops.chance.below(50)
            return .stop(victim, nanoseconds: UInt64(milliseconds) * 1_000_000)
        }
        if killsLeft > 0, kills.comes(), let victim = victim(process, &kills.chance) {
            killsLeft -= 1
            return .kill(victim)
        }
        guard others.comes(), let victim = victim(process, &others.chance) else { return nil }
        if others.chance.oneIn(30) { return .removeDirectory }
        if others.chance.oneIn(30) {
            return .moveDirectory(nanoseconds: UInt64(others.chance.below(3_000)) * 1_000_000)
        }
        if others.chance.oneIn(30) { return .setClock(seconds: others.chance.number(in: -100_000...100_000)) }
        return switch others.chance.below(8) {
        case 0...2: .cut(victim)
        case 3...5: .fork(victim, nanoseconds: UInt64(others.chance.below(200)) * 1_000_000)
        case 6: .removeEntry
        default: .sleep(nanoseconds: UInt64(others.chance.number(in: 1...3_000)) * 1_000_000_000)
        }
    }

    /// The process that makes the call, or any other.
    private func victim(_ process: Process, _ chance: inout Chance) -> Process? {
        let victim = chance.oneIn(2) ? process : victims.randomElement(using: &chance)
        return victims.first { $0 === victim && !$0.isDead }
    }

    /// The error of a call, if it fails.
    mutating func error(_ call: Call, of process: Process) -> (number: Int, error: Int32)? {
        guard isOn, process.mayFail, errors.comes() else { return nil }
        let error: Int32 =
            switch call {
            case .make: errors.chance.pick([ENOSPC, EMFILE, EACCES])
            case .open, .descriptor, .accept: EMFILE
            case .memory: errors.chance.pick([ENOMEM, ENOSPC])
            case .send: errors.chance.pick([ENOBUFS, EAGAIN, EINTR])
            }
        count += 1
        guard !skipped.contains(count) else { return nil }
        if call == .accept { refusedAccepts += 1 }
        if call == .memory { refusedMemory += 1 }
        return (count, error)
    }
}
