import Dispatch
import RunLoops

// Dispatch and the main thread's loop. The loop calls what is on the main queue. Other queues do not need the loop.

let loop = ThreadRunLoop.main

print("1. Any thread puts a closure on the main queue. The main thread's loop calls it, in the common modes.")
DispatchQueue.global().async {
    DispatchQueue.main.async {
        print("   The closure runs in the loop, in mode \(loop.currentMode ?? "none").")
        loop.stop()
    }
}
try loop.run()

print("2. In a mode that is not common, the loop does not serve the main queue.")
DispatchQueue.main.async {
    print("   The closure waited for the default mode.")
    loop.stop()
}
loop.addTimer(after: .milliseconds(10), forMode: "private") { _ in print("   A timer fires in mode private.") }
print("   The run in mode private is \(try loop.runInMode("private", seconds: 10)).")
try loop.run()

print("3. The main queue calls one closure after the other: a run inside a closure does not serve the queue.")
DispatchQueue.main.async {
    DispatchQueue.main.async {
        print("   The second closure: the first one has returned.")
        loop.stop()
    }
    loop.addTimer(after: .milliseconds(10)) { _ in print("   A timer fires in a run inside the first closure.") }
    _ = try? loop.runInMode(.default, seconds: 10)
    print("   The first closure returns.")
}
try loop.run()

print("4. A busy loop delays its own timers. A dispatch timer with its own queue fires all the same.")
let ticks = DispatchSemaphore(value: 0)
let metronome = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "metronome"))
metronome.setEventHandler { @Sendable in ticks.signal() }
metronome.schedule(deadline: .now() + .milliseconds(5), repeating: .milliseconds(5))
var fired = 0
loop.addTimer(after: .milliseconds(1)) { _ in
    loop.addTimer(after: .milliseconds(5), repeats: true) { timer in
        fired += 1
        print("   The callout has returned: the loop's timer fires.")
        timer.invalidate()
        loop.stop()
    }
    metronome.activate()
    for _ in 1...5 { ticks.wait() }
    print("   During one callout the dispatch timer has fired 5 times, and the loop's timer \(fired) times.")
}
try loop.run()
metronome.cancel()
