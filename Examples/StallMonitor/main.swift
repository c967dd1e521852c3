import Glibc
import RunLoops
import Synchronization

// A loop is watched from outside: who keeps it from everything else, and since when?

let isReported = Atomic(false)
let threshold = Duration.milliseconds(200)

print("A monitor watches the main loop: no pass may take longer than 200 ms.")
// It calls back on a thread of its own, for the loop's is busy.
let monitor = try StallMonitor(.main, threshold: threshold) { stall in
    guard stall.isOver else {
        // It says so again when the stall has lasted twice as long, four times, and so on.
        if isReported.load(ordering: .acquiring) { return }
        print("Monitor: the loop is held up, in mode \(stall.mode ?? "none"), by \(stall.item ?? "no item").")
        return isReported.store(true, ordering: .releasing)
    }
    print("Monitor: it goes on. That took \(stall.duration > threshold ? "more" : "less") than 200 ms.")
    ThreadRunLoop.main.stop()
}

let quick = ThreadRunLoop.Timer(after: .milliseconds(10), label: "quick") { _ in
    print("Main: the quick timer fires. The monitor has no reason to speak.")
}
let slow = ThreadRunLoop.Timer(after: .milliseconds(20), label: "slow report") { _ in
    print("Main: the slow timer fires, and waits for something, as no callout should.")
    while !isReported.load(ordering: .acquiring) { usleep(1000) }
    print("Main: it was reported in the middle of it. The slow timer is done.")
}
try ThreadRunLoop.main.add(quick)
try ThreadRunLoop.main.add(slow)
try ThreadRunLoop.main.run()
monitor.stop()
