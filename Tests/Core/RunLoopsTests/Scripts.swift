import Glibc
import Oracle
import RunLoops
import Synchronization
import TestSupport
import Testing

/// The scripts that both loops play.
struct Script: Sendable, CustomTestStringConvertible {
    let name: String
    /// Whether it waits for the clock: a busy machine may make two dates one, so it may be played again.
    let isTimed: Bool
    let play: @Sendable (any Stage) -> Void

    init(_ name: String, timed: Bool = false, _ play: @escaping @Sendable (any Stage) -> Void) {
        self.name = name
        isTimed = timed
        self.play = play
    }

    var testDescription: String { name }
}

extension Script {
    static let all = runs + sources + timers + observers + blocks + nested + modes + wakes
    private static let short = 0.03

    // MARK: Beginnings and ends

    private static let runs: [Script] = [
        Script("a mode that does not exist") { s in
            s.watch("default")
            s.run("nowhere")
        },
        Script("the common modes are no mode to run") { s in
            s.watch("default")
            s.source0("a", in: "common")
            s.run("common")
        },
        Script("an empty mode") { s in s.run() },
        Script("a mode with observers only") { s in
            s.watch("default")
            s.run("default", short)
        },
        Script("a mode that had an item") { s in
            s.watch("default")
            s.source0("a")
            s.remove("a", from: "default")
            s.run()
        },
        Script("one poll of an idle source") { s in
            s.watch("default")
            s.source0("a")
            s.run()
            s.run("default", -1)
        },
        Script("a time without an end, and one of less than nothing") { s in
            s.watch("default")
            s.source0("a") { s.stop() }
            for seconds in [Double.infinity, 1e10, .nan, -1, -Double.infinity] {
                s.signal("a")
                s.run("default", seconds)
            }
        },
        Script("a run that returns, of a time without an end") { s in
            s.watch("default")
            s.source0("a")
            for seconds in [Double.infinity, 1e10, .nan, -1, -Double.infinity] {
                s.signal("a")
                s.run("default", seconds, returning: true)
            }
        },
        Script("the time is over", timed: true) { s in
            s.watch("default")
            s.source0("a")
            s.run("default", 0.005)
        },
        Script("the time of a run begins when its entry has been told", timed: true) { s in
            s.watch("default")
            s.source0("a")
            s.observer("busy", .entry) { spin(milliseconds: 30) }
            s.timer("t", 50) {}
            s.run("default", 0.04)
        },
        Script("stop inside the entry observer") { s in
            s.watch("default")
            s.source0("a")
            s.observer("o", .entry) { s.stop() }
            s.run("default", 5)
            s.remove("o", from: "default")
            s.run()
        },
        Script("stop inside the exit observer is forgotten") { s in
            s.watch("default")
            s.source0("a")
            s.observer("o", .exit, repeats: false) { s.stop() }
            s.run()
            s.run()
        },
        Script("stop on a loop that is not running is forgotten") { s in
            s.watch("default")
            s.source0("a")
            s.stop()
            s.run()
        },
        Script("stop inside each other observer") { s in
            s.watch("default")
            s.source0("a")
            for activity in [ThreadRunLoop.Activity.beforeTimers, .beforeSources, .beforeWaiting, .afterWaiting] {
                // Awake for the last of them to be told.
                s.observer(activity.label, activity, repeats: false) { s.stop() }
                s.observer("wake", .beforeWaiting, repeats: false) { s.wakeUp() }
                s.run("default", 5)
            }
        },
        Script("stop with the time over: the time wins") { s in
            s.watch("default")
            s.source0("a") { s.stop() }
            s.signal("a")
            s.run()
            s.run()
        },
        Script("stop with a source handled: the source wins") { s in
            s.watch("default")
            s.source0("a") { s.stop() }
            s.signal("a")
            s.run("default", 5, returning: true)
        },
        Script("the last item goes in its own callout") { s in
            s.watch("default")
            s.source0("a") { s.remove("a", from: "default") }
            s.signal("a")
            s.run("default", 5)
            s.source0("b") { s.invalidate("b") }
            s.signal("b")
            s.run("default", 5)
        },
        Script("finished comes after stopped") { s in
            s.watch("default")
            s.source0("a") {
                s.invalidate("a")
                s.stop()
            }
            s.signal("a")
            s.run("default", 5)
        },
        Script("the last item goes before the loop would sleep") { s in
            s.watch("default")
            s.source0("a")
            s.observer("o", .beforeTimers) { s.remove("a", from: "default") }
            s.run("default", short)
        },
    ]

    // MARK: Sources

    private static let sources: [Script] = [
        Script("a signalled source") { s in
            s.watch("default")
            s.source0("a") { s.stop() }
            s.signal("a")
            s.signal("a")
            s.run("default", 5)
            s.run()
        },
        Script("a signalled source ends a run that returns") { s in
            s.watch("default")
            s.source0("a")
            s.signal("a")
            s.run("default", 5, returning: true)
            s.run("default", 0, returning: true)
        },
        Script("two signalled sources of different order") { s in
            s.watch("default")
            s.source0("late", order: 2)
            s.source0("early", order: 1)
            s.signal("late")
            s.signal("early")
            s.run()
        },
        Script("two signalled sources, one a run") { s in
            s.watch("default")
            s.source0("late", order: 2)
            s.source0("early", order: 1)
            s.signal("late")
            s.signal("early")
            s.run("default", 5, returning: true)
            s.run("default", 5, returning: true)
            s.run("default", 0, returning: true)
        },
        Script("a source that signals itself") { s in
            s.watch("default")
            s.source0("a") {
                s.signal("a")
                if s.trace.all.count > 12 { s.stop() }
            }
            s.signal("a")
            s.run("default", 5)
        },
        Script("a source signals one of a later and one of an earlier order") { s in
            s.watch("default")
            s.source0("early", order: 1)
            s.source0("middle", order: 2) {
                s.signal("early")
                s.signal("late")
            }
            s.source0("late", order: 3) { s.stop() }
            s.signal("middle")
            s.run("default", 5)
            s.run()
        },
        Script("sources of equal order are performed in the order they were signalled") { s in
            s.watch("default")
            for name in ["a", "b", "c", "d", "e"] { s.source0(name) }
            s.source0("first", order: -1)
            for name in ["c", "e", "a", "c", "first", "d", "c", "b"] { s.signal(name) }
            s.run()
        },
        Script("a source that signals itself again lets those of its order go first") { s in
            s.watch("default")
            for name in ["a", "b", "c"] { s.source0(name) { s.signal(name) } }
            for name in ["b", "c", "a"] { s.signal(name) }
            for _ in 0..<5 { s.run("default", 5, returning: true) }
            s.run()
        },
        Script("a source performed in one mode and signalled again comes last in another") { s in
            s.watch("default", "other")
            for name in ["a", "b"] { s.source0(name) }
            s.add("a", to: "other")
            s.signal("a")
            s.signal("b")
            s.run("other")
            s.signal("a")
            s.run()
        },
        Script("a source keeps the place of its signal in a mode that it joins later") { s in
            s.watch("default")
            for name in ["a", "b", "c"] { s.source0(name, in: name == "b" ? "other" : "default") }
            for name in ["b", "c", "a"] { s.signal(name) }
            s.remove("c", from: "default")
            for name in ["c", "b"] { s.add(name, to: "default") }
            s.run()
        },
        Script("a source signalled before it is added") { s in
            s.watch("default")
            s.makeSource0("a", order: 0) { s.trace("a") }
            s.signal("a")
            s.add("a", to: "default")
            s.run()
        },
        Script("a source in two modes is performed once a signal") { s in
            s.watch("default", "other")
            s.source0("a")
            s.add("a", to: "other")
            s.signal("a")
            s.run("other")
            s.run()
        },
        Script("a source removes, and one invalidates, another that is signalled") { s in
            s.watch("default")
            s.source0("first", order: 1) {
                s.remove("removed", from: "default")
                s.invalidate("invalidated")
            }
            s.source0("removed", order: 2)
            s.source0("invalidated", order: 3)
            for name in ["first", "removed", "invalidated"] { s.signal(name) }
            s.run()
            s.add("invalidated", to: "default")
            s.trace("\(s.contains("invalidated", in: "default")) \(s.isValid("removed")) \(s.isValid("invalidated"))")
        },
        Script("an invalid source is no reason to return") { s in
            s.watch("default")
            s.source0("keep")
            s.source0("a")
            s.signal("a")
            s.invalidate("a")
            s.run("default", 0, returning: true)
        },
        Script("a source joins and leaves modes") { s in
            s.source0("a")
            s.add("a", to: "default")
            s.add("a", to: "other")
            s.remove("a", from: "nowhere")
            s.remove("a", from: "other")
            s.remove("a", from: "other")
            s.add("a", to: "third")
            s.invalidate("a")
            s.invalidate("a")
        },
        Script("the thread ends with a source in two modes") { s in
            s.source0("a")
            s.run()
        },
        Script("a ready descriptor, polled") { s in
            s.watch("default")
            s.port("p")
            s.run()
            s.raise("p")
            s.run()
            s.run()
        },
        Script("a ready descriptor ends a run that returns") { s in
            s.watch("default")
            s.port("p")
            s.raise("p")
            s.run("default", 5, returning: true)
        },
        Script("a ready descriptor raised again in its callout") { s in
            s.watch("default")
            s.port("p") { if s.trace.all.count < 16 { s.raise("p") } else { s.stop() } }
            s.raise("p")
            s.run("default", 5)
        },
        Script("a signalled source goes before a ready descriptor") { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.source0("a")
            s.raise("p")
            s.signal("a")
            s.run("default", 5)
        },
        Script("a signalled source and a ready descriptor, one a run", timed: true) { s in
            s.watch("default")
            s.port("p")
            s.source0("a")
            s.raise("p")
            s.signal("a")
            s.run("default", 5, returning: true)
            s.run("default", short, returning: true)
        },
        Script("a descriptor made ready inside the last observer before the sleep") { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.observer("o", .beforeWaiting, repeats: false) { s.raise("p") }
            s.run("default", 5)
        },
        Script("a ready descriptor is removed before the sleep") { s in
            s.watch("default")
            s.source0("keep")
            s.port("p")
            s.raise("p")
            s.observer("o", .beforeSources) { s.invalidate("p") }
            s.run()
            s.trace("\(s.isValid("p"))")
        },
        Script("a ready descriptor is removed after the sleep") { s in
            s.watch("default")
            s.source0("keep")
            s.port("p")
            s.raise("p")
            s.observer("o", .afterWaiting, repeats: false) {
                s.invalidate("p")
                s.stop()
            }
            s.run("default", 5)
        },
        Script("a ready descriptor is taken out of its mode after the sleep", timed: true) { s in
            s.watch("default")
            s.source0("keep")
            s.port("p")
            s.raise("p")
            s.observer("o", .afterWaiting, repeats: false) { s.remove("p", from: "default") }
            s.run("default", short)
        },
        Script("a source stops and wakes in one callout") { s in
            s.watch("default")
            s.source0("a") {
                s.stop()
                s.wakeUp()
            }
            s.signal("a")
            s.run("default", 5)
            s.run()
        },
    ]

    // MARK: Timers

    private static let timers: [Script] = [
        Script("a timer that fires once", timed: true) { s in
            s.watch("default")
            s.timer("t", 5) { s.trace("\(s.isValid("t"))") }
            s.run("default", 5)
            s.trace("\(s.isValid("t")) \(s.contains("t", in: "default"))")
        },
        Script("a timer does not make a run return") { s in
            s.watch("default")
            s.source0("keep")
            s.timer("t", -5) { s.stop() }
            s.run("default", 5, returning: true)
        },
        Script("a timer that is due, polled") { s in
            s.watch("default")
            s.timer("t", -5)
            s.run()
        },
        Script("a timer of the future, polled") { s in
            s.watch("default")
            s.timer("t", 60_000)
            s.run()
            s.trace("\(s.hasTimerFireDate)")
            s.remove("t", from: "default")
            s.trace("\(s.hasTimerFireDate) \(s.isValid("t"))")
        },
        Script("a timer that was due before a descriptor was ready goes first", timed: true) { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.timer("t", 1)
            spin(milliseconds: 3)
            s.raise("p")
            s.run("default", 5)
        },
        Script("a descriptor that was ready before a timer was due goes first", timed: true) { s in
            s.watch("default")
            s.port("p")
            s.timer("t", 3) { s.stop() }
            s.raise("p")
            spin(milliseconds: 6)
            s.run("default", 5)
        },
        Script("a timer becomes due, and then a descriptor ready, in a callout", timed: true) { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.timer("later", 8)
            s.timer("t", -5) {
                spin(milliseconds: 12)
                s.raise("p")
            }
            s.run("default", 5)
        },
        Script("a timer of the past is added, and then a descriptor made ready, in a callout", timed: true) { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.timer("far", 60_000)
            s.source0("a") {
                s.timer("t", -5)
                spin(milliseconds: 1)
                s.raise("p")
            }
            s.signal("a")
            s.run("default", 5)
        },
        Script("a timer gets a date in the past, and then a descriptor is made ready", timed: true) { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.timer("t", 60_000)
            s.run()
            s.redate("t", milliseconds: -5)
            spin(milliseconds: 1)
            s.raise("p")
            s.run("default", 5)
        },
        Script("a timer that repeats is due again, and then a descriptor ready", timed: true) { s in
            s.watch("default")
            s.port("p") { s.stop() }
            s.timer("t", -5, every: 4)
            s.source0("a")
            s.run()
            spin(milliseconds: 8)
            s.raise("p")
            s.run("default", 5)
        },
        Script("a timer that repeats", timed: true) { s in
            s.watch("default")
            s.timer("t", 8, every: 8) { if s.trace.all.count > 14 { s.stop() } }
            s.run("default", 5)
            s.trace("\(s.isValid("t"))")
        },
        Script("a repeating timer invalidated in its own callout") { s in
            s.watch("default")
            s.timer("t", 0, every: 5) { s.invalidate("t") }
            s.run("default", 5)
        },
        Script("a repeating timer removed in its own callout", timed: true) { s in
            s.watch("default")
            s.timer("t", 0, every: 5) { s.remove("t", from: "default") }
            s.run("default", 5)
            s.trace("\(s.isValid("t"))")
            s.add("t", to: "default")
            s.run("default", 5)
        },
        Script("a repeating timer dated later in its own callout", timed: true) { s in
            s.watch("default")
            s.timer("late", 0, every: 40) { if s.trace.all.count < 12 { s.redate("late", milliseconds: 180) } }
            s.timer("mark", 120)
            s.timer("end", 280) { s.stop() }
            s.run("default", 5)
        },
        Script("a repeating timer dated into the past in its own callout", timed: true) { s in
            s.watch("default")
            s.timer("t", 0, every: 40) { if s.trace.all.count < 12 { s.redate("t", milliseconds: -1000) } }
            s.timer("mark", 20)
            s.timer("end", 60) { s.stop() }
            s.run("default", 5)
        },
        Script("a timer that fires once dated anew in its own callout") { s in
            s.watch("default")
            s.timer("t", 0) { s.redate("t", milliseconds: 5) }
            s.run("default", 5)
            s.trace("\(s.isValid("t"))")
        },
        Script("fires missed while the loop was busy become one", timed: true) { s in
            s.watch("default")
            s.timer("t", 20, every: 20) {}
            s.source0("busy") { spin(milliseconds: 70) }
            s.signal("busy")
            s.timer("end", 90) { s.stop() }
            s.run("default", 5)
        },
        Script("a timer dated later before it fires", timed: true) { s in
            s.watch("default")
            s.timer("t", 5)
            s.redate("t", milliseconds: 30)
            s.timer("mark", 15)
            s.run("default", 5)
        },
        Script("a timer dated earlier before it fires", timed: true) { s in
            s.watch("default")
            s.timer("t", 60_000)
            s.timer("mark", 15)
            s.redate("t", milliseconds: 5)
            s.run("default", 5)
        },
        Script("two timers due, the first invalidates the second") { s in
            s.watch("default")
            s.source0("keep")
            s.timer("first", -20) { s.invalidate("second") }
            s.timer("second", -10)
            s.run()
        },
        Script("two timers due, the first removes the second") { s in
            s.watch("default")
            s.source0("keep")
            s.timer("first", -20) { s.remove("second", from: "default") }
            s.timer("second", -10)
            s.run()
            s.run()
        },
        Script("two timers due, the first dates the second later") { s in
            s.watch("default")
            s.source0("keep")
            s.timer("first", -20) { s.redate("second", milliseconds: 60_000) }
            s.timer("second", -10)
            s.run()
            s.run()
        },
        Script("two timers due, the first dates the second into the past") { s in
            s.watch("default")
            s.source0("keep")
            s.timer("first", -20) { s.redate("second", milliseconds: -10) }
            s.timer("second", -10)
            s.run()
            s.run()
        },
        Script("two timers due, the first takes the second into another mode") { s in
            s.watch("default")
            s.source0("keep")
            s.timer("first", -20) {
                s.add("second", to: "other")
                s.remove("second", from: "default")
            }
            s.timer("second", -10)
            s.run()
        },
        Script("another thread dates a timer of another mode", timed: true) { s in
            s.watch("default")
            s.source0("keep")
            s.timer("t", 60_000, in: "other")
            let helper = Helper {
                usleep(10_000)
                s.redate("t", milliseconds: 50_000)
            }
            s.run("default", short)
            helper.join()
        },
        Script("a timer adds one that is due", timed: true) { s in
            s.watch("default")
            s.timer("first", -20) { s.timer("added", -40) }
            s.timer("second", -10)
            s.run("default", 5)
        },
        Script("two timers due, and the first stops") { s in
            s.watch("default")
            s.timer("first", -20) { s.stop() }
            s.timer("second", -10)
            s.run("default", 5)
            s.run()
        },
        Script("a timer in two modes", timed: true) { s in
            s.watch("default", "other")
            s.timer("t", 0)
            s.add("t", to: "other")
            s.run("other", 5)
            s.run()
        },
        Script("a timer signals a source", timed: true) { s in
            s.watch("default")
            s.source0("a") { s.stop() }
            s.timer("t", 5) { s.signal("a") }
            s.run("default", 5)
        },
        Script("a repeating timer made with a date in the past", timed: true) { s in
            s.watch("default")
            s.timer("t", -30, every: 45)
            s.timer("mark", 30)
            s.timer("end", 60) { s.stop() }
            s.run("default", 5)
        },
        Script("a repeating timer dated into the past", timed: true) { s in
            s.watch("default")
            s.timer("t", 60_000, every: 45)
            s.redate("t", milliseconds: -30)
            s.timer("mark", 30)
            s.timer("end", 60) { s.stop() }
            s.run("default", 5)
        },
        Script("a timer's date is the next one while its callout is in progress") { s in
            s.timer("once", -5) { s.trace("\(s.hasTimerFireDate)") }
            s.run()
            s.trace("\(s.hasTimerFireDate)")
            s.timer("repeating", -5, every: 60_000) {
                s.trace("\(s.hasTimerFireDate)")
                s.remove("repeating", from: "default")
                s.trace("\(s.hasTimerFireDate)")
            }
            s.run()
        },
        Script("two timers made with dates in the past") { s in
            s.watch("default")
            s.timer("first", -20)
            s.timer("second", -10_000)
            s.run()
        },
        Script("a timer before a busy source", timed: true) { s in
            s.watch("default")
            s.source0("a") { spin(milliseconds: 20) }
            s.timer("t", 10) { s.stop() }
            s.signal("a")
            s.run("default", 5)
        },
    ]

    // MARK: Observers

    private static let observers: [Script] = [
        Script("order among observers") { s in
            s.source0("a")
            s.observer("late", .all, order: 5)
            s.observer("early", .all, order: -5)
            s.observer("middle", .all, order: 0)
            s.observer("middle too", .all, order: 0)
            s.run()
        },
        Script("an observer that is told once") { s in
            s.source0("a")
            s.observer("o", .all, repeats: false) { s.trace("\(s.isValid("o"))") }
            s.run()
            s.trace("\(s.isValid("o")) \(s.contains("o", in: "default"))")
        },
        Script("an observer removes a later one, and invalidates another") { s in
            s.source0("a")
            s.observer("first", .beforeTimers, order: 1) {
                s.remove("removed", from: "default")
                s.invalidate("invalidated")
            }
            s.observer("removed", .all, order: 2)
            s.observer("invalidated", .all, order: 3)
            s.run()
        },
        Script("an observer adds one") { s in
            s.source0("a")
            s.observer("first", [.beforeTimers, .beforeSources], repeats: false, order: 1) {
                s.observer("added", .all, order: 2)
            }
            s.run()
        },
        Script("an observer goes in its own callout") { s in
            s.source0("a")
            s.observer("o", .all) { s.invalidate("o") }
            s.observer("r", .all) { s.remove("r", from: "default") }
            s.run()
            s.trace("\(s.isValid("o")) \(s.isValid("r"))")
        },
        Script("a removed observer can be added again") { s in
            s.source0("a")
            s.observer("o", .entry)
            s.remove("o", from: "default")
            s.run()
            s.add("o", to: "default")
            s.run()
        },
        Script("observers signal a source") { s in
            for activity in [ThreadRunLoop.Activity.entry, .beforeTimers, .beforeSources, .exit] {
                s.watch("default")
                s.source0("a")
                s.observer("o", activity, repeats: false) { s.signal("a") }
                s.run()
                s.run()
            }
        },
        Script("a source signalled before the sleep without a wake-up waits", timed: true) { s in
            s.watch("default")
            s.source0("a") { s.stop() }
            s.observer("o", .beforeWaiting, repeats: false) { s.signal("a") }
            s.run("default", short)
            s.run()
        },
        Script("observers of an activity only") { s in
            s.source0("a")
            s.observer("o", [.entry, .exit])
            s.signal("a")
            s.run()
        },
    ]

    // MARK: Blocks

    private static let blocks: [Script] =
        [
            Script("a block keeps a mode once", timed: true) { s in
                s.watch("default")
                s.block("b")
                s.run("default", short)
                s.run()
            },
            Script("a block is no handled source") { s in
                s.watch("default")
                s.source0("a")
                s.block("b")
                s.run("default", 0, returning: true)
            },
            Script("blocks in order") { s in
                s.watch("default")
                for name in ["1", "2", "3"] { s.block(name) }
                s.run()
            },
            Script("a block inside a block", timed: true) { s in
                s.watch("default")
                s.block("outer") { s.block("inner") { s.block("innermost") } }
                s.run("default", short)
            },
            Script("a block inside a block, polled") { s in
                s.watch("default")
                s.block("outer") { s.block("inner") { s.block("innermost") } }
                s.run()
                s.run()
            },
            Script("a block for another mode waits for it") { s in
                s.watch("default", "other")
                s.source0("a")
                s.source0("o", in: "other")
                s.block("b", in: ["other"])
                s.run()
                s.run("other")
            },
            Script("a block makes its mode") { s in
                s.block("b", in: ["new"])
                s.trace(s.modes.joined(separator: " "))
                s.run("new")
            },
            Script("a block for two modes runs once") { s in
                s.watch("default", "other")
                s.block("b", in: ["default", "other"])
                s.run("other")
                s.run()
            },
            Script("a block for the common modes") { s in
                s.watch("default", "other")
                s.source0("o", in: "other")
                s.block("b", in: ["common"])
                s.run("other")
                s.run()
                s.addCommonMode("other")
                s.block("c", in: ["common"])
                s.run("other")
            },
            Script("blocks for several modes keep their order") { s in
                s.watch("default", "other")
                for (name, mode) in [("1", "default"), ("2", "other"), ("3", "default"), ("4", "other")] {
                    s.block(name, in: [mode])
                }
                s.run()
                s.run("other")
            },
            Script("a block inside a source") { s in
                s.watch("default")
                s.source0("a") { s.block("b") { s.stop() } }
                s.signal("a")
                s.run("default", 5)
            },
            Script("a block inside a source, in a run that returns") { s in
                s.watch("default")
                s.source0("a") { s.block("b") { s.block("c") } }
                s.signal("a")
                s.run("default", 5, returning: true)
                s.run("default", 0)
            },
            Script("a block inside a timer") { s in
                s.watch("default")
                s.timer("t", -5) { s.block("b") }
                s.run("default", 5)
            },
            Script("a block inside a ready descriptor's callout") { s in
                s.watch("default")
                s.port("p") { s.block("b") { s.stop() } }
                s.raise("p")
                s.run("default", 5)
            },
            Script("a block that stops") { s in
                s.watch("default")
                s.source0("a")
                s.block("b") { s.stop() }
                s.block("c")
                s.run("default", 5)
            },
            Script("a block that adds a source and signals it") { s in
                s.watch("default")
                s.block("b") {
                    s.source0("a") { s.stop() }
                    s.signal("a")
                }
                s.run("default", 5)
            },
        ]
        + ["source", "port", "timer"].flatMap { kind in
            @Sendable func add(to s: any Stage) {
                switch kind {
                case "source": s.source0("last")
                case "port": s.port("last")
                default: s.timer("last", 10_000)
                }
            }
            return [
                Script("a block that invalidates the last \(kind) of its mode", timed: true) { s in
                    s.watch("default")
                    add(to: s)
                    s.block("b") { s.invalidate("last") }
                    s.run("default", short)
                    s.run()
                },
                Script("a block that invalidates the last \(kind) of its mode, polled") { s in
                    s.watch("default")
                    add(to: s)
                    s.block("b") { s.invalidate("last") }
                    s.run("default", 0, returning: true)
                    s.run()
                },
                Script("a block that wakes the loop and invalidates the last \(kind) of its mode", timed: true) { s in
                    s.watch("default")
                    add(to: s)
                    s.observer("o", .beforeWaiting, repeats: false) {
                        s.block("b") { s.invalidate("last") }
                        s.wakeUp()
                    }
                    s.run("default", short)
                    s.run()
                },
            ]
        }
        + [ThreadRunLoop.Activity.entry, .beforeTimers, .beforeSources, .beforeWaiting, .afterWaiting, .exit].map {
            activity in
            Script("a block inside the observer of \(activity.label)", timed: true) { s in
                s.watch("default")
                s.source0("a")
                s.observer("o", activity, repeats: false) { s.block("b") }
                s.run("default", short)
                s.run()
            }
        }

    // MARK: Runs inside runs

    private static let nested: [Script] = [
        Script("a run inside a source, in the same mode") { s in
            s.watch("default")
            s.source0("a") { s.run() }
            s.signal("a")
            s.run()
        },
        Script("a run inside a source, in another mode") { s in
            s.watch("default", "other")
            s.source0("o", in: "other")
            s.source0("a") {
                s.trace(s.currentMode ?? "none")
                s.run("other")
                s.trace(s.currentMode ?? "none")
            }
            s.signal("a")
            s.run()
            s.trace(s.currentMode ?? "none")
        },
        Script("the current mode inside observers") { s in
            s.source0("a")
            s.observer("o", .all) { s.trace(s.currentMode ?? "none") }
            s.run()
        },
        Script("a run inside a source serves the other signalled ones") { s in
            s.watch("default")
            s.source0("first", order: 1) { s.run() }
            s.source0("second", order: 2)
            s.signal("first")
            s.signal("second")
            s.run()
        },
        Script("stop inside an inner run ends that one") { s in
            s.watch("default", "other")
            s.source0("inner", in: "other") { s.stop() }
            s.source0("outer") {
                s.signal("inner")
                s.run("other", 5)
            }
            s.signal("outer")
            s.run()
        },
        Script("stop after an inner run ends the outer one") { s in
            s.watch("default", "other")
            s.source0("inner", in: "other") { s.stop() }
            s.source0("outer") {
                s.signal("inner")
                s.run("other", 5)
                s.stop()
            }
            s.signal("outer")
            s.run("default", 5)
        },
        Script("stop before an inner run ends the outer one") { s in
            s.watch("default", "other")
            s.source0("inner", in: "other")
            s.source0("outer") {
                s.stop()
                s.run("other")
            }
            s.signal("outer")
            s.run("default", 5)
        },
        Script("a run inside a timer does not fire it again") { s in
            s.watch("default")
            s.timer("t", 0, every: 5) {
                s.run("default", 0)
                s.stop()
            }
            s.run("default", 5)
        },
        Script("a run inside a timer fires another one", timed: true) { s in
            s.watch("default")
            s.timer("outer", 0) {
                s.timer("inner", 5) { s.stop() }
                s.run("default", 5)
            }
            s.run("default", 5)
        },
        Script("a run inside a timer with another one due") { s in
            s.watch("default")
            s.timer("first", -20) { s.run("default", 0) }
            s.timer("second", -10)
            s.run("default", 5)
        },
        Script("a sleeping run inside a timer with another one due", timed: true) { s in
            s.watch("default")
            s.source0("keep")
            s.timer("first", -20) { s.run("default", short) }
            s.timer("second", -10) { s.stop() }
            s.run("default", short)
        },
        Script("a run inside a block with another block queued") { s in
            s.watch("default")
            s.source0("keep")
            s.block("first") { s.run() }
            s.block("second")
            s.run()
        },
        Script("a run inside an observer tells the others") { s in
            s.source0("a")
            s.observer("first", .beforeTimers, order: 1) { s.run() }
            s.observer("second", .beforeTimers, order: 2)
            s.run()
        },
        Script("a run inside the observer before the sleep", timed: true) { s in
            s.watch("default", "other")
            s.source0("a")
            s.source0("o", in: "other")
            s.observer("o1", .beforeWaiting, repeats: false) { s.run("other") }
            s.run("default", short)
        },
        Script("a run inside a ready descriptor's callout") { s in
            s.watch("default")
            s.port("p") {
                s.raise("q")
                s.run()
            }
            s.port("q")
            s.raise("p")
            s.run()
        },
        Script("an inner run that returns after a source") { s in
            s.watch("default")
            s.source0("second", order: 2)
            s.source0("first", order: 1) {
                s.signal("second")
                s.run("default", 5, returning: true)
            }
            s.signal("first")
            s.run("default", 5, returning: true)
        },
        Script("stop in an observer of an inner run", timed: true) { s in
            s.watch("default", "other")
            s.source0("a")
            s.source0("o", in: "other")
            s.observer("stopper", .beforeTimers, in: "other") { s.stop() }
            s.observer("runner", .beforeTimers, repeats: false) { s.run("other", 5) }
            s.run("default", short)
        },
        Script("an inner run of an empty mode") { s in
            s.watch("default", "other")
            s.source0("a") { s.run("other", 5) }
            s.signal("a")
            s.run()
        },
    ]

    // MARK: Modes

    private static let modes: [Script] = [
        Script("modes come to be with their items") { s in
            s.trace(s.modes.joined(separator: " "))
            s.run("nowhere")
            s.source0("a", in: "one")
            s.observer("o", .entry, in: "two")
            s.timer("t", 60_000, in: "three")
            s.remove("a", from: "four")
            s.trace("\(s.contains("a", in: "five"))")
            s.trace(s.modes.joined(separator: " "))
            s.addCommonMode("six")
            s.trace(s.modes.joined(separator: " "))
        },
        Script("an item added twice to a mode counts once") { s in
            s.source0("a")
            s.port("p")
            s.timer("t", -5, every: 60_000)
            s.observer("o", .all)
            for name in ["a", "p", "t", "o"] { s.add(name, to: "default") }
            s.signal("a")
            s.run()
            s.raise("p")
            s.run()
            for name in ["a", "p", "t", "o"] {
                s.remove(name, from: "default")
                s.trace("\(s.contains(name, in: "default"))")
            }
            s.run()
        },
        Script("a timer and an observer of several modes") { s in
            s.source0("a")
            s.source0("b", in: "other")
            s.observer("o", .entry)
            s.timer("t", -5, every: 60_000)
            for name in ["o", "t"] {
                s.add(name, to: "other")
                for mode in ["default", "other", "third"] { s.trace("\(s.contains(name, in: mode))") }
            }
            s.run("other")
            s.run()
            for name in ["o", "t"] {
                s.remove(name, from: "other")
                for mode in ["default", "other", "third"] { s.trace("\(s.contains(name, in: mode))") }
            }
            s.run("other")
        },
        Script("a common mode joined late gets the common items") { s in
            s.watch("default", "other")
            s.source0("a", in: "common")
            s.observer("o", .entry, in: "common")
            s.timer("t", -5, every: 60_000, in: "common")
            s.run("other")
            s.addCommonMode("other")
            s.signal("a")
            s.run("other")
            s.trace("\(s.contains("a", in: "other")) \(s.contains("a", in: "common"))")
        },
        Script("what is taken out of the common modes leaves them all") { s in
            s.watch("default", "other")
            s.addCommonMode("other")
            s.timer("a", 60_000, in: "common")
            s.remove("a", from: "common")
            for mode in ["default", "other", "common"] { s.trace("\(s.contains("a", in: mode))") }
            s.run()
            s.run("other")
        },
        Script("what is taken out of one mode stays common") { s in
            s.addCommonMode("other")
            s.timer("a", 60_000, in: "common")
            s.remove("a", from: "default")
            for mode in ["default", "other", "common"] { s.trace("\(s.contains("a", in: mode))") }
            s.add("a", to: "common")
            s.trace("\(s.contains("a", in: "default"))")
        },
        Script("a common item taken out of its only mode") { s in
            s.source0("a", in: "common")
            s.observer("o", .entry, in: "common")
            s.timer("t", 60_000, in: "common")
            for name in ["a", "o", "t"] {
                s.remove(name, from: "default")
                s.trace("\(s.contains(name, in: "default")) \(s.contains(name, in: "common"))")
            }
            s.addCommonMode("other")
            for name in ["a", "o", "t"] {
                s.trace("\(s.contains(name, in: "other")) \(s.contains(name, in: "common"))")
            }
        },
        Script("what is no common item stays when taken out of the common modes") { s in
            s.source0("a")
            s.observer("o", .entry)
            s.timer("t", 60_000)
            for name in ["a", "o", "t"] {
                s.remove(name, from: "common")
                s.trace("\(s.contains(name, in: "default"))")
            }
        },
        Script("an invalidated item leaves the common modes") { s in
            s.source0("a", in: "common")
            s.invalidate("a")
            s.trace("\(s.contains("a", in: "common"))")
            s.addCommonMode("other")
            s.trace("\(s.contains("a", in: "other"))")
        },
        Script("a mode joined twice") { s in
            s.source0("a", in: "common")
            s.addCommonMode("other")
            s.addCommonMode("other")
            s.addCommonMode("default")
        },
        movingScript("a common source is told of each mode before it joins or leaves the next") { _, _ in },
        movingScript("a common source removes itself as it joins the first mode") { s, count in
            if count == 1 { s.remove("a", from: "common") }
        },
        movingScript("a common source leaves one mode as it joins the first") { s, count in
            if count == 1 { for mode in ["default", "other"] { s.remove("a", from: mode) } }
        },
        movingScript("a common source is invalidated as it joins the first mode") { s, count in
            if count == 1 { s.invalidate("a") }
        },
        movingScript("a common source is invalidated as it joins the second mode") { s, count in
            if count == 2 { s.invalidate("a") }
        },
        movingScript("a common source adds itself again as it leaves the first mode") { s, count in
            if count == 3 { s.add("a", to: "common") }
        },
        movingScript("a common source adds itself to both modes as it leaves the second") { s, count in
            if count == 4 { for mode in ["default", "other"] { s.add("a", to: mode) } }
        },
        movingScript("a common source is invalidated as it leaves the first mode") { s, count in
            if count == 3 { s.invalidate("a") }
        },
        movingScript("a common source adds itself again as it leaves the last mode for good") { s, count in
            if count > 3 { s.add("a", to: "common") }
        },
        Script("a source that goes as it joins a new common mode") { s in
            s.makeSource0("a", order: 0) { move in
                s.trace("a \(move)")
                if case .joins("other") = move { s.invalidate("a") }
            } perform: {
            }
            s.add("a", to: "common")
            s.addCommonMode("other")
            s.trace("\(s.contains("a", in: "default")) \(s.contains("a", in: "common"))")
        },
    ]

    /// A source that joins and leaves two common modes, in no order, and acts at one of these moves.
    private static func movingScript(
        _ name: String, _ act: @escaping @Sendable (any Stage, Int) -> Void
    ) -> Script {
        Script(name) { s in
            let modes = ["default", "other"]
            let count = Atomic(0)
            s.source0("keep", in: "other")
            s.addCommonMode("other")
            s.makeSource0("a", order: 0) { move in
                let here = modes.count { s.contains("a", in: $0) }
                s.trace("a \(move.verb), is in \(here), \(s.contains("a", in: "common")) \(s.isValid("a"))")
                act(s, count.add(1, ordering: .relaxed).newValue)
                s.trace("told")
            } perform: {
            }
            for step in [
                { s.add("a", to: "common") }, { s.remove("a", from: "common") }, { s.add("a", to: "common") },
                { s.invalidate("a") },
            ] {
                step()
                let here = modes.count { s.contains("a", in: $0) }
                s.trace("in \(here), \(s.contains("a", in: "common"))")
            }
        }
    }

    // MARK: Wake-ups

    private static let wakes: [Script] =
        [
            Script("wake-ups of a loop that is not running", timed: true) { s in
                s.watch("default")
                s.source0("a")
                s.wakeUp()
                s.run("default", short)
            },
            Script("a wake-up inside a source", timed: true) { s in
                s.watch("default")
                s.source0("a") { s.wakeUp() }
                s.observer("end", .afterWaiting) { s.stop() }
                s.signal("a")
                s.run("default", short)
            },
            Script("a wake-up inside a block before the sleep") { s in
                s.watch("default")
                s.source0("a")
                s.observer("end", .afterWaiting) { s.stop() }
                s.block("b") { s.wakeUp() }
                s.run("default", 5)
            },
            Script("a wake-up and a signal before the sleep") { s in
                s.watch("default")
                s.source0("a") { s.stop() }
                s.observer("o", .beforeWaiting, repeats: false) {
                    s.signal("a")
                    s.wakeUp()
                }
                s.run("default", 5)
            },
            Script("a wake-up inside a timer is of no use", timed: true) { s in
                s.watch("default")
                s.timer("t", -5) {
                    s.wakeUp()
                    s.source0("keep")
                }
                s.run("default", short)
            },
            Script("a wake-up inside a ready descriptor's callout is of no use", timed: true) { s in
                s.watch("default")
                s.port("p") { s.wakeUp() }
                s.raise("p")
                s.run("default", short)
            },
            Script("a wake-up in a poll", timed: true) { s in
                s.watch("default")
                s.source0("a")
                s.observer("o", .beforeSources, repeats: false) { s.wakeUp() }
                s.run()
                s.run("default", short)
            },
        ]
        + [ThreadRunLoop.Activity.entry, .beforeTimers, .beforeSources, .beforeWaiting, .afterWaiting, .exit].map {
            activity in
            Script("a wake-up inside the observer of \(activity.label)", timed: true) { s in
                s.watch("default")
                s.source0("a")
                s.observer("o", activity, repeats: false) { s.wakeUp() }
                s.run("default", short)
            }
        }
}
