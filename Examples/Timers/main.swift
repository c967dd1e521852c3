import Glibc
import RunLoops

// The guide's listings 3-10 and 3-11: timers made in two ways, and what they do when their loop is busy.

// Each part has a mode of its own. A run of a mode ends when its last timer has fired, for it is empty then.
let loop = ThreadRunLoop.current

print(
    "1. A timer is made for a date and an interval, and then added. Any thread could do so: its closure is @Sendable.")
let date = ContinuousClock.now + .milliseconds(20)
let made = ThreadRunLoop.Timer(at: date, every: .milliseconds(10)) { timer in
    print("   It fires, \(date <= .now ? "not before" : "before") its date. It would fire again, and is invalidated.")
    timer.invalidate()
}
try loop.add(made, forMode: "made")
print(
    "   The run is \(try loop.runInMode("made", seconds: 10)), the timer \(made.isValid ? "still" : "no longer") valid."
)

print("2. A timer is made and added at once, on the loop's own thread. Any closure will do: this one counts.")
var ticks = 0
loop.addTimer(after: .milliseconds(10), repeats: true, forMode: "counting") { timer in
    ticks += 1
    print("   Tick \(ticks).")
    if ticks == 3 { timer.invalidate() }
}
print("   The run is \(try loop.runInMode("counting", seconds: 10)).")

print("3. A timer repeats every 10 ms, and its loop is busy for 35 ms.")
var calls = 0
let late = loop.addTimer(after: .milliseconds(10), repeats: true, forMode: "busy") { timer in
    calls += 1
    if calls == 1 {
        print("   It fires, and keeps the loop busy.")
        usleep(35_000)
    } else {
        print("   The times that it missed became one call.")
        timer.invalidate()
    }
}
let first = late.nextFireDate
try loop.runInMode("busy", seconds: 10)
let intervals = first.duration(to: late.nextFireDate) / .milliseconds(10)
print(
    "   Its date is \(intervals == intervals.rounded() ? "a whole number of intervals" : "some other time") after its first."
)

print("4. A timer is due in an hour. Another one changes its mind: the date is now.")
let hourly = loop.addTimer(after: .seconds(3600), forMode: "moved") { _ in print("   It fires.") }
loop.addTimer(after: .milliseconds(10), forMode: "moved") { _ in hourly.nextFireDate = .now }
print("   The run is \(try loop.runInMode("moved", seconds: 10)).")

print("5. A timer in the common modes fires in each of them, and in a mode that joins them later.")
loop.addTimer(after: .milliseconds(10), repeats: true, forMode: .common) { _ in
    print("   It fires in the mode \(loop.currentMode.map { "\($0)" } ?? "of no run").")
    loop.stop()
}
try loop.addCommonMode("tracking")
for mode in [.default, "tracking"] as [ThreadRunLoop.Mode] { try loop.runInMode(mode, seconds: 10) }
