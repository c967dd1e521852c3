import Glibc
import Logging
import SimulatedCalls

// Plays machines. Each seed has a process of its own, so that a seed finds the same addresses whatever ran before.

let usage = """
    usage: simulate [--steps N] [--jobs N] [--first] [--by N] FIRST [LAST]
           simulate [--steps N] [--skip N,N…] --tell SEED
           simulate [--steps N] --shrink SEED

      FIRST LAST  the seeds of the machines to play
      --steps N   how long faults go on, in turns of threads; 2000 unless told otherwise
      --jobs N    how many machines to play at a time; as many as there are processors unless told otherwise
      --first     stop at the first broken promise
      --by N      play each Nth seed: with the multiples of 3 ports move and are lent, with those of 5 there are pools of
                  workers, with those of 7 services that an activator starts, and with those of 11 XPC sessions
      --tell      tell each call that others see
      --shrink    find the few faults that break the promise, and draw who did what
      --skip N,N  leave out the faults with these numbers
    """

struct Options {
    var steps = 2_000
    var jobs = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    var stopsAtFirst = false
    var stride: UInt64 = 1
    var tells = false
    var shrinks = false
    var skipped: Set<Int> = []
    var seeds: ClosedRange<UInt64> = 0...0

    /// Nil for words that are no options.
    init?(_ words: some Sequence<String>) {
        var seeds: [UInt64] = []
        var rest = Array(words)[...]
        while let word = rest.popFirst() {
            switch word {
            case "--steps":
                guard let number = rest.popFirst().flatMap({ Int($0) }), number >= 0 else { return nil }
                steps = number
            case "--jobs":
                guard let number = rest.popFirst().flatMap({ Int($0) }), number > 0 else { return nil }
                jobs = number
            case "--skip": skipped = Set((rest.popFirst() ?? "").split(separator: ",").compactMap { Int($0) })
            case "--first": stopsAtFirst = true
            case "--by":
                guard let number = rest.popFirst().flatMap({ UInt64($0) }), number > 0 else { return nil }
                stride = number
            case "--tell": tells = true
            case "--shrink": shrinks = true
            default:
                guard let seed = UInt64(word) else { return nil }
                seeds.append(seed)
            }
        }
        guard let first = seeds.first, seeds.count < 3, let last = seeds.last, first <= last else { return nil }
        self.seeds = first...last
    }

    var isOne: Bool { seeds.count == 1 }

    /// The options in one form, whose words take the same memory for all seeds, played alone or in a range.
    var words: [String] {
        func word(_ number: some BinaryInteger) -> String {
            let digits = "\(number)"
            return String(repeating: "0", count: 20 - digits.utf8.count) + digits
        }
        var words = ["--steps", word(steps), "--jobs", word(jobs), "--by", word(stride)]
        if stopsAtFirst { words.append("--first") }
        if tells { words.append("--tell") }
        if shrinks { words.append("--shrink") }
        if !skipped.isEmpty { words += ["--skip", skipped.sorted().map { "\($0)" }.joined(separator: ",")] }
        return words + [word(seeds.lowerBound), word(seeds.upperBound)]
    }

    /// The seeds to play, in order. No array: its size would change the addresses in the machines.
    var played: StrideThrough<UInt64> {
        Swift.stride(from: seeds.lowerBound, through: seeds.upperBound, by: Int(stride))
    }
    var count: Int { Int((seeds.upperBound - seeds.lowerBound) / stride) + 1 }
}

/// Plays a machine, and ends the process: with 0 if all promises were kept.
func play(_ seed: UInt64, _ options: Options, _ detail: Story.Detail, faults: UnsafeMutablePointer<Int64>) -> Never {
    let level: Logger.Level = seed % 4 == 0 ? .trace : .info
    LoggingSystem.bootstrap { _ in SimulatedLog(logLevel: level, isPrinted: detail == .all) }
    simulated_tasks_begin()
    machine = Machine(seed: seed, story: Story(detail), skippedFaults: options.skipped)
    machine.faultCount = faults
    simulated_set_on(true)
    let scenario = Scenario(steps: options.steps)
    scenario.run()
    if options.isOne, detail != .none {
        let digest = String(machine.story.digest, radix: 16)
        print("seed \(seed): \(machine.steps) steps, \(scenario.promises.counts), digest \(digest)")
    }
    fflush(nil)
    simulated_exit(0)
    Glibc.abort()
}

/// Plays a machine in a process of its own.
/// - Returns: Whether all promises were kept, and the number of faults.
func playApart(_ seed: UInt64, _ options: Options, _ detail: Story.Detail) -> (isKept: Bool, faults: Int) {
    guard let faults = simulated_shared_number() else { return (false, 0) }
    let child = simulated_fork()
    if child == 0 {
        // Real time says little beside other work.
        var minute = rlimit(rlim_cur: 60, rlim_max: 61)
        setrlimit(__rlimit_resource_t(RLIMIT_CPU.rawValue), &minute)
        play(seed, options, detail, faults: faults)
    }
    var status: Int32 = 0
    let isOver = simulated_wait(child, &status, 600_000) != 0
    if !isOver {
        if detail != .none { print("seed \(seed): still running after ten minutes of real time") }
        _ = Glibc.kill(child, SIGKILL)
        _ = simulated_wait(child, &status, -1)
    }
    if detail != .none, isOver {
        switch status & 0x7f {
        case 0: break
        case SIGXCPU: print("seed \(seed): still running after a minute of processor time")
        case let signal: print("seed \(seed): ended by signal \(signal)")
        }
    }
    defer { munmap(faults, 4096) }
    return (status == 0, Int(faults.pointee))
}

/// Plays the seeds of a job, one after another.
/// - Returns: The number of broken promises.
func playAll(_ job: Int, of jobs: Int, _ options: Options) -> Int32 {
    var failures: Int32 = 0
    simulated_pin(Int32(job))
    for (place, seed) in options.played.enumerated() where place % jobs == job {
        if !playApart(seed, options, options.tells ? .all : .line).isKept { failures = min(failures + 1, 100) }
        if options.stopsAtFirst, failures > 0 { break }
    }
    return failures
}

/// Leaves out faults, as many as it can, and still breaks the promise.
func shrink(_ seed: UInt64, _ options: Options) -> Int32 {
    var options = options
    let (isKept, count) = playApart(seed, options, .none)
    if isKept {
        print("seed \(seed): all promises kept")
        return 0
    }
    var size = max(1, count / 2)
    while true {
        let left = (1...max(1, count)).filter { !options.skipped.contains($0) }
        for start in stride(from: 0, to: left.count, by: size) {
            var fewer = options
            fewer.skipped.formUnion(left[start..<min(start + size, left.count)])
            if !playApart(seed, fewer, .none).isKept { options = fewer }
        }
        if size == 1 { break }
        size /= 2
    }
    _ = playApart(seed, options, .picture)
    let skipped = options.skipped.sorted().map(String.init).joined(separator: ",")
    print(
        "to read all of it: simulate --steps \(options.steps)\(skipped.isEmpty ? "" : " --skip \(skipped)") --tell \(seed)"
    )
    return 1
}

guard let options = Options(CommandLine.arguments.dropFirst()) else {
    print(usage)
    exit(64)
}
// The addresses of objects, and the order of sets with them, are the same in each run.
var words = ([CommandLine.arguments[0]] + options.words).map { strdup($0) } + [nil]
guard simulated_fix_addresses(&words, CommandLine.arguments.dropFirst().elementsEqual(options.words)) else { exit(70) }
simulated_set_up_output()
if options.shrinks { exit(shrink(options.seeds.lowerBound, options)) }

let jobs = min(options.jobs, options.count)
var children: [Int32] = []
for job in 0..<jobs {
    let child = simulated_fork()
    if child == 0 { simulated_exit(playAll(job, of: jobs, options)) }
    children.append(child)
}
var failures: Int32 = 0
for _ in 0..<jobs {
    var status: Int32 = 0
    let child = simulated_wait(-1, &status, -1)
    children.removeAll { $0 == child }
    failures += status >> 8 & 0xff
    // The other jobs end with this one.
    if options.stopsAtFirst, failures > 0 { for other in children { _ = Glibc.kill(other, SIGKILL) } }
}
if !options.isOne, !options.stopsAtFirst || failures == 0 {
    let outcome = failures == 0 ? "all promises kept" : "\(failures) with a broken promise"
    print("\(options.count) machines: \(outcome)")
}
exit(failures == 0 ? 0 : 1)
