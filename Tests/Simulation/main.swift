import Glibc
import Logging
import SimulatedCalls

// Plays machines: `simulate [--steps N] [--jobs N] [--first] [--tell] FIRST [LAST]`. Each seed has a process of its own.

let usage = """
    usage: simulate [--steps N] [--jobs N] [--first] [--tell] FIRST [LAST]

      FIRST LAST  the seeds of the machines to play
      --steps N   how long faults go on, in turns of threads; 2000 unless told otherwise
      --jobs N    how many machines to play at a time; as many as there are processors unless told otherwise
      --first     stop at the first broken promise
      --tell      tell what happens
    """

var steps = 2_000
var jobs = sysconf(Int32(_SC_NPROCESSORS_ONLN))
var (tells, stopsAtFirst) = (false, false)
var seeds: [UInt64] = []
var rest = CommandLine.arguments.dropFirst()
while let word = rest.popFirst() {
    func number() -> Int? { rest.popFirst().flatMap { Int($0) } }
    switch word {
    case "--steps": steps = number() ?? steps
    case "--jobs": jobs = number() ?? jobs
    case "--first": stopsAtFirst = true
    case "--tell": tells = true
    default:
        guard let seed = UInt64(word) else {
            print(usage)
            exit(64)
        }
        seeds.append(seed)
    }
}
guard let first = seeds.first, seeds.count < 3 else {
    print(usage)
    exit(64)
}
let last = max(first, seeds.last ?? first)

// The addresses of objects, and the order of sets with them, are the same in each run.
guard simulated_fix_addresses(CommandLine.unsafeArgv) else { exit(70) }
simulated_set_up_output()
if !tells { LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() } }

/// Plays a machine, and ends the process: with 0 if all promises were kept.
func play(_ seed: UInt64, steps: Int, tells: Bool, isAlone: Bool) -> Never {
    simulated_tasks_begin()
    machine = Machine(seed: seed, story: Story(tells: tells))
    simulated_set_on(true)
    let scenario = Scenario(steps: steps)
    scenario.run()
    if isAlone {
        print(
            "seed \(seed): \(machine.steps) steps, \(scenario.promises.counts), digest \(String(machine.story.digest, radix: 16))"
        )
    }
    fflush(nil)
    simulated_exit(0)
    fatalError("not reached")
}

/// Plays the seeds of a job, one after another.
/// - Returns: How many failed.
@MainActor
func playAll(_ job: Int, of jobs: Int) -> Int32 {
    var failures: Int32 = 0
    simulated_pin(Int32(job))
    for seed in first...last where Int(seed % UInt64(jobs)) == job {
        let child = simulated_fork()
        if child == 0 { play(seed, steps: steps, tells: tells, isAlone: first == last) }
        var status: Int32 = 0
        if simulated_wait(child, &status, 60_000) == 0 {
            print("seed \(seed): still running after a minute of real time")
            _ = kill(child, SIGKILL)
            _ = simulated_wait(child, &status, -1)
        }
        if status & 0x7f != 0 { print("seed \(seed): ended by signal \(status & 0x7f)") }
        if status != 0 { failures = min(failures + 1, 100) }
        if stopsAtFirst, failures > 0 { break }
    }
    return failures
}

jobs = max(1, min(jobs, Int(last - first) + 1))
var children: [Int32] = []
for job in 0..<jobs {
    let child = simulated_fork()
    if child == 0 { simulated_exit(playAll(job, of: jobs)) }
    children.append(child)
}
var failures: Int32 = 0
for _ in children {
    var status: Int32 = 0
    let child = simulated_wait(-1, &status, -1)
    failures += status >> 8 & 0xff
    // The other jobs end with this one.
    if stopsAtFirst, failures > 0 { for other in children where other != child { _ = kill(other, SIGKILL) } }
}
if first != last, !stopsAtFirst || failures == 0 {
    print("\(last - first + 1) machines: \(failures == 0 ? "all promises kept" : "\(failures) with a broken promise")")
}
exit(failures == 0 ? 0 : 1)
