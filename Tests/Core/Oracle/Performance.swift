import Dispatch
import Glibc
import RunLoopLocks
import RunLoops
import TestSupport

/// One play of a generated script on one loop.
final class Performance: @unchecked Sendable {
    private typealias Action = GeneratedScript.Action

    private let script: GeneratedScript
    private let first: any Stage
    private let suffix: String
    private let start = MonotonicInstant.now
    private let thread = pthread_self()
    private let pending = Lock(Pending())
    // Sound: used on the loop's thread, but for `elsewhere` and the second loop, during which that one waits.
    private var calls: [String: Int] = [:]
    private var helpers: [Helper<Void>] = []
    private var companion: (thread: Companion, id: pthread_t, stage: any Stage)?
    private var commonModes: Set = [0]
    private var isOver = false
    /// How many walks of sources through several modes are in progress, one inside another.
    private var walks = 0
    private let over = Latch()

    /// - Parameter suffix: Makes the modes' names this play's own, on a loop that outlives it.
    init(_ script: GeneratedScript, on stage: some Stage, suffix: String) {
        self.script = script
        first = stage
        self.suffix = suffix
    }

    /// The events of the trace from which on the loops may part.
    var partings: [(event: Int, reason: Parting)] { pending.withLock { $0.partings } }

    /// Plays the script, and has the loop as it was before but for the empty modes that are left.
    /// - Returns: How long the trace was before the items were taken out, which has no order.
    func play() -> Int {
        for index in script.items.indices { make(index) }
        for mode in GeneratedScript.modes {
            first.observer("~\(mode)", .all, order: -1000, in: name(mode)) {}
            for (watcher, order) in [("^\(mode)", -1001), ("$\(mode)", 1001)] {
                first.makeObserver(watcher, .all, repeats: true, order: order) { [self] activity in
                    order < 0 ? note(activity, mode) : settle(activity, mode)
                }
                first.add(watcher, to: name(mode))
            }
        }
        if script.hasFarTimers {
            for mode in GeneratedScript.modes { first.timer("#\(mode)", 60_000, in: name(mode)) }
        }
        first.makeSource0("#idle", order: 0) {}
        first.add("#idle", to: "drain" + suffix)
        let rescuer = Helper { [first, over] in
            // Once in some hundred timed runs Foundation's loop sleeps through the end of its time.
            while !over.wait(until: .now + .seconds(1)) { if first is CFStage { first.wakeUp() } }
        }
        perform(script.actions)
        isOver = true
        over.open()
        for helper in helpers { helper.join() }
        rescuer.join()
        let count = first.trace.all.count
        companion?.thread.end()
        return count
    }

    /// Has a loop that stays as it was before.
    func clear() {
        // What Foundation's kernel timer is left at is too far away to matter to the next script.
        first.timer("#far", 1_000_000_000)
        for item in script.items { first.invalidate(item.name) }
        for mode in GeneratedScript.modes {
            for watcher in ["~", "^", "$"] { first.invalidate("\(watcher)\(mode)") }
        }
        // What is queued is done, and what it queues.
        for _ in 0..<8 {
            for mode in GeneratedScript.modes {
                _ = first.runOnce(name(mode), seconds: 0, returnAfterSourceHandled: false)
            }
        }
        for name in ["#idle", "#far"] { first.invalidate(name) }
        if script.hasFarTimers { for mode in GeneratedScript.modes { first.invalidate("#\(mode)") } }
    }

    private func name(_ mode: Int) -> String {
        [0, GeneratedScript.common].contains(mode)
            ? GeneratedScript.name(mode) : GeneratedScript.name(mode) + suffix
    }

    private func name(of item: Int) -> String { script.items[item].name }

    /// That of the calling thread, any but the second loop's being the first's or on its behalf.
    private var stage: any Stage {
        if let companion, isCompanion { companion.stage } else { first }
    }

    private var isOwnThread: Bool { pthread_equal(thread, pthread_self()) != 0 }

    private var isCompanion: Bool { companion.map { pthread_equal($0.id, pthread_self()) != 0 } ?? false }

    // MARK: Items

    private func make(_ index: Int) {
        let item = script.items[index]
        switch item.kind {
        case .source0(let order):
            first.makeSource0(item.name, order: order) { [self] move in
                // The main loop has the common modes of former plays, too.
                guard !move.mode.contains("#") || move.mode.hasSuffix(suffix) else { return }
                stage.trace("\(item.name) \(walks > 0 ? move.verb : move.description)")
                call(item.name + " moved", item.moves)
            } perform: { [self] in
                let last = pending.withLock { pending in
                    pending.signaled.removeAll { $0 == index }
                    return pending.signaled.enumerated()
                        .max { (self.order($0.element), $0.offset) < (self.order($1.element), $1.offset) }?.element
                }
                pending.withLock { $0.performing.append($0.runs.count) }
                call(index, item.name)
                pending.withLock { _ = $0.performing.removeLast() }
                if let last, !stage.isValid(name(of: last)) || !pending.withLock({ $0.signaled.contains(last) }) {
                    part(.lastSourceGone)
                }
            }
        case .port:
            first.makePort(item.name) { [self] in
                noteCallout { pending in
                    pending.raised.remove(index)
                    let isTied = pending.raised.contains { $0 != item.twin }
                    return isTied || pending.queued > 0 || pending.hasServed && pending.hasTimerDue
                        ? .readyTogether : nil
                }
                call(index, item.name)
            }
        case .timer(let date, let every):
            let milliseconds = milliseconds(until: date)
            noteDate(index, milliseconds)
            first.makeTimer(item.name, milliseconds: milliseconds, every: every) { [self] in
                fire(index, every: every)
            }
        case .observer(let activities, let repeats, let order):
            first.makeObserver(item.name, activities, repeats: repeats, order: order) { [self] activity in
                call(index, "\(item.name) \(activity.label)")
            }
        }
    }

    private func fire(_ timer: Int, every: Int) {
        let item = script.items[timer]
        noteCallout { pending in
            let date = pending.dues.removeValue(forKey: timer)
            if !pending.raised.isEmpty && pending.hasServed || pending.queued > 0 { return .readyTogether }
            // Together for sure only if the loop has been busy when they came due.
            return item.twin != nil && date.map { .now < $0 + .milliseconds(2) } ?? false ? .dueTogether : nil
        }
        let mode = isCompanion ? nil : pending.withLock { $0.runs.last?.mode }
        // One of several that are due at once has the kernel's timer set for the next.
        let isFirst = pending.withLock { $0.passesSinceTimer == nil }
        if every == 0, !isFirst, let mode { setLeft(mode, .now, .now, without: timer) }
        let otherModes = GeneratedScript.modes.filter { $0 != mode && first.contains(item.name, in: name($0)) }
        for mode in otherModes { pending.withLock { $0.left[mode] = (.now, .now, 0) } }
        pending.withLock { pending in
            pending.firing.append((timer, mode, isFirst))
            pending.passesSinceTimer = 0
        }
        call(timer, item.name)
        let isDated = pending.withLock { $0.dues[timer] != nil }
        if isDated, GeneratedScript.modes.contains(where: { $0 != mode && first.contains(item.name, in: name($0)) }) {
            part(.timerNotSet)
        }
        pending.withLock { pending in
            pending.firing.removeLast()
            pending.passesSinceTimer = 0
            if repeatsSoon(timer), pending.dues[timer] == nil {
                pending.dues[timer] = .now + .milliseconds(every / 2)
            }
        }
        // Else it is set for its next date, in all its modes.
        if every > 0, !isDated { noteTimerSet(timer) }
        if every == 0 { for mode in otherModes { setLeft(mode, .now, .now, without: timer) } }
    }

    private func call(_ index: Int, _ event: String) {
        stage.trace(event)
        call(name(of: index), script.items[index].callouts)
    }

    private func call(_ name: String, _ lists: [[Action]]) {
        guard !isOver else { return }
        let count = calls[name, default: 0]
        calls[name] = count + 1
        guard count < lists.count else { return }
        if isCompanion { performElsewhere(lists[count]) } else { perform(lists[count]) }
    }

    private func goesByItself(_ index: Int) -> Bool {
        if case .observer(_, false, _) = script.items[index].kind { true } else { false }
    }

    private func repeatsSoon(_ index: Int) -> Bool {
        if case .timer(_, 1...GeneratedScript.longestInterval) = script.items[index].kind { true } else { false }
    }

    private func order(_ index: Int) -> Int {
        if case .source0(let order) = script.items[index].kind { order } else { 0 }
    }

    // MARK: Where the loops may part

    /// From the next event on.
    private func part(_ reason: Parting) {
        let count = first.trace.all.count
        pending.withLock { $0.part(reason, at: count) }
    }

    private func note(_ activity: ThreadRunLoop.Activity, _ mode: Int) {
        let count = first.trace.all.count
        switch activity {
        case .beforeTimers: pending.withLock { $0.beginPass(mode) }
        case .afterWaiting: pending.withLock { $0.wakeFromSleep(mode, at: count) }
        default: break
        }
    }

    /// The last moment before the loop looks at what is ready. A wake-up that has nothing to add, because something
    /// else is ready for sure, could only compete with that: Foundation's is taken away.
    private func settle(_ activity: ThreadRunLoop.Activity, _ mode: Int) {
        if activity == .entry { pending.withLock { $0.beginTime() } }
        if activity == .afterWaiting { pending.withLock { _ = $0.waking.removeLast() } }
        let isLast =
            pending.withLock { $0.runs.last?.polls == true }
            ? activity == .beforeSources : activity == .beforeWaiting
        guard isLast else { return }
        let isQueueReady = pending.withLock { $0.queued > 0 && !$0.servesQueue }
        if isQueueReady, commonModes.contains(mode) { drain() }
        let (raised, firing, dues) = pending.withLock { ($0.raised, $0.firing.map(\.timer), $0.dues) }
        // Of one that repeats the date is not known so well.
        let due = dues.filter { $0.value.hasPassed && !firing.contains($0.key) && !repeatsSoon($0.key) }.map(\.key)
        if (raised + due).contains(where: { first.contains(name(of: $0), in: name(mode)) }) { drain() }
    }

    private func settleIfPolling() {
        if isOwnThread, script.isOrderly, pending.withLock({ $0.polls }) { drain() }
    }

    private func instant(_ slot: Int) -> MonotonicInstant { start + .milliseconds(slot * GeneratedScript.slot) }

    private func milliseconds(until date: GeneratedScript.Date) -> Int {
        switch date {
        case .past: -1000
        case .slot(let slot): slot * GeneratedScript.slot - Int(start.duration(to: .now) / .milliseconds(1))
        case .far: 60_000
        }
    }

    private func noteDate(_ index: Int, _ milliseconds: Int) {
        pending.withLock { $0.dues[index] = .now + .milliseconds(milliseconds) }
    }

    /// Something was served: was there another thing to choose? The kernel's order is another for each loop.
    private func noteCallout(_ note: (inout Pending) -> Parting?) {
        let count = first.trace.all.count
        pending.withLock { pending in
            let reason = note(&pending)
            (pending.hadCallout, pending.hasServed) = (true, true)
            if pending.isWoken || pending.isTimeOver {
                pending.part(.readyTogether, at: count)
            } else if let reason {
                pending.part(reason, at: count)
            }
        }
    }

    /// A timer goes: Foundation leaves the kernel's timer as it is in each mode that has no other to set it to.
    private func leave(_ item: Int, from mode: Int? = nil) {
        guard case .timer = script.items[item].kind else { return }
        noteUnserved(item)
        let date = pending.withLock { $0.dues[item] } ?? .now
        let last = repeatsSoon(item) ? .now + .milliseconds(GeneratedScript.longestInterval) : date
        for mode in mode.map({ [$0] }) ?? Array(GeneratedScript.modes) {
            guard first.contains(name(of: item), in: name(mode)) else { continue }
            let firing = pending.withLock { pending in pending.firing.first { $0.timer == item && $0.mode == mode } }
            switch firing?.isFirst {
            case nil: setLeft(mode, date, last, without: item)
            // The one before it has had the kernel's timer set for this one.
            case false?: setLeft(mode, .now, .now, without: item)
            case true?: break
            }
        }
    }

    /// A due timer goes, or gets another date, before it is served. The kernel keeps the loop's timer in the queue of what
    /// is ready until somebody asks: a date that comes due before then has the old place, ahead of what became ready since.
    /// Foundation asks in every pass, our loop not in one that polls a mode without descriptors.
    private func noteUnserved(_ timer: Int) {
        pending.withLock { if $0.dues[timer]?.hasPassed == true { $0.hasServed = true } }
    }

    private func setLeft(_ mode: Int, _ from: MonotonicInstant, _ to: MonotonicInstant, without item: Int) {
        let firing = pending.withLock { $0.firing.map(\.timer) }
        let hasOther = script.items.indices.contains { index in
            guard index != item, !firing.contains(index), case .timer = script.items[index].kind else { return false }
            return first.contains(name(of: index), in: name(mode))
        }
        guard !hasOther, !script.hasFarTimers else { return pending.withLock { $0.left[mode] = nil } }
        pending.withLock { ($0.left[mode], $0.hasServed) = ((from, to, 0), true) }
    }

    /// A timer's date counts in its modes: the kernel's timer is set.
    private func noteTimerSet(_ item: Int) {
        guard case .timer = script.items[item].kind, !pending.withLock({ $0.firing.contains { $0.timer == item } })
        else { return }
        for mode in GeneratedScript.modes where first.contains(name(of: item), in: name(mode)) {
            pending.withLock { $0.left[mode] = nil }
        }
    }

    /// Whether a source acts when it joins or leaves modes.
    private func actsOnMoves(_ item: Int) -> Bool { !script.items[item].moves.isEmpty }

    /// Has a source join or leave. The modes of a walk through several are a set in Foundation, so that a source that
    /// acts on its moves is told in no order: the modes go unnamed, and have to be alike in the end.
    private func move(_ item: Int, _ mode: Int?, _ change: () -> Void) {
        let isWalk: Bool
        switch mode {
        case GeneratedScript.common?: isWalk = commonModes.count > 1
        case nil:
            isWalk =
                (GeneratedScript.modes.map { $0 } + [GeneratedScript.nowhere])
                .count { first.contains(name(of: item), in: name($0)) } > 1
        default: isWalk = false
        }
        guard actsOnMoves(item), isWalk else { return change() }
        // It may be in two loops, which are a set, too.
        if mode == nil, companion != nil { part(.movesTogether) }
        walks += 1
        change()
        walks -= 1
        let isEven = script.items.indices.allSatisfy { index in
            let places = commonModes.count { first.contains(name(of: index), in: name($0)) }
            return places == 0 || places == commonModes.count
        }
        if walks == 0, !isEven { part(.movesTogether) }
    }

    private func isOfOneMode(_ action: Action) -> Bool {
        switch action {
        case .add(_, let mode), .remove(_, let mode), .ask(_, let mode): mode != GeneratedScript.common
        default: false
        }
    }

    // MARK: Actions

    private func perform(_ actions: [Action]) {
        for action in actions { perform(action) }
    }

    private func perform(_ action: Action) {
        if walks > 0, isOfOneMode(action) { part(.movesTogether) }
        switch action {
        case .add(let item, let mode):
            if script.isOrderly, pending.withLock({ $0.dues[item]?.hasPassed == true && $0.isTaken }) { break }
            for item in script.both(item) {
                move(item, mode) { stage.add(name(of: item), to: name(mode)) }
                noteTimerSet(item)
            }
        case .remove(let item, let mode):
            for item in script.both(item) {
                leave(item, from: mode == GeneratedScript.common ? nil : mode)
                move(item, mode) { stage.remove(name(of: item), from: name(mode)) }
            }
        case .invalidate(let item):
            for item in script.both(item) {
                leave(item)
                pending.withLock { pending in
                    pending.raised.remove(item)
                    pending.dues[item] = nil
                }
                move(item, nil) { stage.invalidate(name(of: item)) }
            }
        case .signal(let item):
            for item in script.both(item) {
                pending.withLock { if !$0.signaled.contains(item) { $0.signaled.append(item) } }
                stage.signal(name(of: item))
            }
        case .raise(let item):
            let others = pending.withLock { $0.raised }.subtracting(script.both(item))
            let isTied = pending.withLock { $0.hasServed && $0.hasTimerDue || $0.queued > 0 }
            if script.isOrderly, !others.isEmpty || isTied { break }
            if pending.withLock({ $0.waking.last == $0.runs.count }) { part(.eventTaken) }
            for item in script.both(item) {
                pending.withLock { _ = $0.raised.insert(item) }
                stage.raise(name(of: item))
            }
        case .redate(let item, let date):
            if script.isOrderly, case .past = date, pending.withLock({ $0.isTaken }) { break }
            let milliseconds = self.milliseconds(until: date)
            if stage.isValid(name(of: item)) {
                // From another thread that is a wake-up, too.
                if !isOwnThread { pending.withLock { $0.wake() } }
                noteUnserved(item)
                noteDate(item, milliseconds)
            }
            stage.redate(name(of: item), milliseconds: milliseconds)
            noteTimerSet(item)
        case .block(let name, let modes, let body):
            pending.withLock { $0.blocks.queued += 1 }
            stage.block(in: modes.map { self.name($0) }) { [self] in
                pending.withLock { $0.blocks = ($0.blocks.queued - 1, $0.blocks.running + 1) }
                stage.trace(name)
                if !isOver { perform(body) }
                pending.withLock { $0.blocks.running -= 1 }
            }
        case .joinCommon(let mode): joinCommon(mode)
        case .stop:
            pending.withLock { $0.wake() }
            stage.stop()
            settleIfPolling()
        case .wakeUp:
            pending.withLock { $0.wake() }
            stage.wakeUp()
            settleIfPolling()
        case .run(let mode, let limit, let returning):
            // A common item may have come there since; nobody watches that mode.
            if mode == GeneratedScript.nowhere, first.modes.contains(name(mode)) { break }
            run(mode, limit, returning: returning)
        case .ask(let item, let mode):
            // An invalid source leaves the common modes and its own in no order.
            let isGoing = mode == GeneratedScript.common && (goesByItself(item) || !stage.isValid(name(of: item)))
            let item = name(of: item)
            stage.trace("\(item) \(stage.isValid(item)) \(!isGoing && stage.contains(item, in: name(mode)))")
        case .askLoop: askLoop()
        case .spin(let slots):
            // To the middle of a slot, where no date is.
            let slot = GeneratedScript.slot * 1000
            let now = Int(start.duration(to: .now) / .microseconds(1)) + 300
            let end = start + .microseconds((now / slot + slots) * slot + slot / 2)
            while !end.hasPassed {}
        case .elsewhere(let actions):
            Helper { [self] in performElsewhere(actions) }.join()
            settleIfPolling()
        case .later(let slot, let actions):
            helpers.append(
                Helper { [self] in
                    sleep(until: instant(slot))
                    performElsewhere(actions)
                })
        case .secondLoop(let actions): performSecond(actions)
        case .mainQueue(let name, let actions):
            if script.isOrderly, pending.withLock({ !$0.raised.isEmpty || $0.hasTimerDue }) { break }
            pending.withLock { $0.queued += 1 }
            DispatchQueue.main.async { [self] in
                noteCallout { pending in
                    pending.queued -= 1
                    return !pending.raised.isEmpty || pending.hasTimerDue ? .readyTogether : nil
                }
                stage.trace(name)
                pending.withLock { $0.servesQueue = true }
                if !isOver { perform(actions) }
                pending.withLock { $0.servesQueue = false }
            }
        }
    }

    private func joinCommon(_ mode: Int) {
        let common = script.items.indices.filter { stage.contains(name(of: $0), in: "common") }
        if mode == GeneratedScript.nowhere, !common.isEmpty { return }
        if !isCompanion, commonModes.insert(mode).inserted {
            if common.count > 1, common.contains(where: actsOnMoves) { part(.movesTogether) }
            if pending.withLock({ $0.blocks.running > 0 && $0.blocks.queued > 0 }) { part(.blocksSettled) }
        }
        stage.addCommonMode(name(mode))
        for index in script.items.indices { noteTimerSet(index) }
    }

    private func askLoop() {
        let modes = stage.modes.filter { $0 == "default" || suffix.isEmpty || $0.hasSuffix(suffix) }
        stage.trace(
            "in \(stage.currentMode ?? "no mode") of \(modes), fires \(stage.hasTimerFireDate), waits \(stage.isWaiting)"
        )
    }

    // MARK: Runs

    private func run(_ mode: Int, _ limit: GeneratedScript.Limit, returning: Bool) {
        var seconds = 0.0
        var polls = false
        var stopper: Helper<Void>?
        let isDone = Latch()
        switch limit {
        case .poll: polls = true
        case .negative:
            polls = true
            seconds = -1
        case .slot(let slot):
            seconds = max(0, MonotonicInstant.now.duration(to: instant(slot)) / .seconds(1))
            polls = seconds == 0
        case .stop(let slot):
            seconds = 1e10
            let date = instant(slot)
            stopper = Helper { [self] in
                sleep(until: date)
                repeat {
                    pending.withLock { $0.wake() }
                    first.stop()
                } while !isDone.wait(until: .now + .milliseconds(20))
            }
        }
        let isInner = pending.withLock { !$0.runs.isEmpty }
        if pending.withLock({ $0.waking.last == $0.runs.count }) { part(.eventTaken) }
        if pending.withLock({ $0.blocks.running > 0 && $0.blocks.queued > 0 }) { part(.blocksHidden) }
        let before = pending.withLock { pending in pending.isWoken ? -1 : pending.wakeUps }
        if isInner { drain() }
        pending.withLock { $0.runs.append((mode, polls, seconds < 1e9 ? seconds : 0, .distantFuture)) }
        first.run(name(mode), seconds, returning: returning)
        pending.withLock { _ = $0.runs.removeLast() }
        isDone.open()
        stopper?.join()
        let isWoken = pending.withLock { $0.wakeUps != before }
        drain()
        if isInner, isWoken {
            pending.withLock { $0.wake() }
            first.wakeUp()
            settleIfPolling()
        }
    }

    /// In Foundation any run takes a wake-up that was meant for an outer or a former one; in ours it does not. So none
    /// is left when a run begins, and the outer one gets its own again.
    private func drain() {
        guard pending.withLock({ $0.isWoken }) else { return }
        _ = first.runOnce("drain" + suffix, seconds: 0, returnAfterSourceHandled: false)
        pending.withLock { $0.passesSinceWakeUp = nil }
    }

    // MARK: Other threads

    private func performElsewhere(_ actions: [Action]) {
        for action in actions {
            switch action {
            case .block(let name, let modes, _):
                pending.withLock { pending in
                    pending.wake()
                    pending.blocks.queued += 1
                }
                stage.blockAndWake(in: modes.map { self.name($0) }) { [self] in
                    pending.withLock { $0.blocks.queued -= 1 }
                    stage.trace(name)
                }
            case .run where isCompanion:
                guard case .run(let mode, _, let returning) = action else { break }
                stage.run(name(mode), 0, returning: returning)
            case .run, .spin, .elsewhere, .later, .secondLoop, .mainQueue: break
            default:
                perform(action)
            }
        }
    }

    private func performSecond(_ actions: [Action]) {
        let thread: Companion
        if let companion {
            thread = companion.thread
        } else {
            thread = Companion()
            thread.perform { [self] in companion = (thread, pthread_self(), first.sibling()) }
        }
        thread.perform { [self] in performElsewhere(actions) }
    }
}
