import Dispatch
import RunLoops
import Synchronization

/// One play of a generated script on one loop.
final class Performance: @unchecked Sendable {
    private typealias Action = GeneratedScript.Action

    /// What the loop has before it, as far as needed to tell where two right loops may part.
    private struct Pending {
        var raised: Set<Int> = []
        var dues: [Int: MonotonicInstant] = [:]
        var signaled: Set<Int> = []
        /// On the main queue.
        var queued = 0
        var firing = 0
        /// Blocks queued, and in progress.
        var blocks = (queued: 0, running: 0)
        var passesSinceTimer: Int?
        /// How many passes have begun since a wake-up that none may have taken; nil when there was none.
        var passesSinceWakeUp: Int? {
            didSet { if passesSinceWakeUp == 0 { wakeUps += 1 } }
        }
        var wakeUps = 0
        var hadCallout = false
        /// The slots at which the runs in progress end.
        var limits: [Int?] = []
        var parting: Int?

        var isWoken: Bool { passesSinceWakeUp != nil }
        /// While a timer fires, and once more after it, Foundation's kernel timer may say that one is due.
        var hasTimerDue: Bool { passesSinceTimer != nil || firing > 0 || dues.values.contains(where: \.hasPassed) }
    }

    private let script: GeneratedScript
    private let stage: any Stage
    private let suffix: String
    private let start = MonotonicInstant.now
    private let pending = Mutex(Pending())
    // Sound: used on the loop's thread, but for `elsewhere`, during which that one waits.
    private var calls: [Int: Int] = [:]
    private var helpers: [Helper] = []

    /// - Parameter suffix: Makes the modes' names this play's own, on a loop that outlives it.
    init(_ script: GeneratedScript, on stage: some Stage, suffix: String) {
        self.script = script
        self.stage = stage
        self.suffix = suffix
    }

    /// The first event of the trace from which on the loops may part; nil when there was none.
    var parting: Int? { pending.withLock { $0.parting } }

    func play() {
        for index in script.items.indices { make(index) }
        var mode = 0
        while script.usesMode(mode) {
            stage.observer("~\(mode)", .all, order: -1000, in: name(mode)) {}
            stage.makeObserver("^\(mode)", .beforeTimers, repeats: true, order: -1001) { [self] _ in noteTurn() }
            stage.add("^\(mode)", to: name(mode))
            mode += 1
        }
        let over = Gate()
        let rescuer = Helper { [stage] in
            // Once in some hundred timed runs Foundation's loop sleeps through the end of its time.
            while !over.wait(until: .now + .seconds(1)) { if stage is CFStage { stage.wakeUp() } }
        }
        perform(script.actions)
        for helper in helpers { helper.join() }
        over.open()
        rescuer.join()
    }

    /// Has the loop as it was before, but for the empty modes that are left.
    func clear() {
        for item in script.items { stage.invalidate(item.name) }
        var mode = 0
        while script.usesMode(mode) {
            stage.invalidate("~\(mode)")
            stage.invalidate("^\(mode)")
            mode += 1
        }
        calls = Dictionary(uniqueKeysWithValues: script.items.indices.map { ($0, 1000) })
        // What is queued is done, and what it queues.
        for _ in 0..<8 {
            for mode in 0..<3 { _ = stage.runOnce(name(mode), seconds: 0, returnAfterSourceHandled: false) }
        }
    }

    private func name(_ mode: Int) -> String {
        switch mode {
        case GeneratedScript.common: "common"
        case 0: "default"
        default: "m\(mode)\(suffix)"
        }
    }

    private func name(of item: Int) -> String { script.items[item].name }

    // MARK: Items

    private func make(_ index: Int) {
        let item = script.items[index]
        switch item.kind {
        case .source0(let order):
            stage.makeSource0(item.name, order: order) { [self] in
                let last = pending.withLock { pending in
                    pending.signaled.remove(index)
                    return pending.signaled.max { self.order($0) < self.order($1) }
                }
                call(index, item.name)
                // Foundation takes a pass for idle when the last source collected turns out to have been performed, or
                // invalidated, meanwhile: it sleeps on the blocks of those before.
                if let last, !stage.isValid(name(of: last)) || !pending.withLock({ $0.signaled.contains(last) }) {
                    part()
                }
            }
        case .port:
            stage.makePort(item.name) { [self] in
                noteCallout { pending in
                    pending.raised.remove(index)
                    return !pending.raised.isEmpty || pending.queued > 0 || pending.hasTimerDue
                }
                call(index, item.name)
            }
        case .timer(let date, let every):
            stage.makeTimer(item.name, milliseconds: noteDate(index, date), every: every) { [self] in
                noteCallout { pending in
                    pending.dues[index] = nil
                    return !pending.raised.isEmpty || pending.queued > 0
                }
                // So it does in the timer's other modes.
                if (0..<3).filter({ stage.contains(item.name, in: name($0)) }).count > 1 { part() }
                pending.withLock { $0.firing += 1 }
                call(index, item.name)
                pending.withLock { pending in
                    pending.firing -= 1
                    pending.passesSinceTimer = 0
                }
                if every > 0, every < 1000 {
                    pending.withLock { pending in
                        if pending.dues[index] == nil { pending.dues[index] = .now + .milliseconds(every / 2) }
                    }
                }
            }
        case .twin(let date):
            stage.makeTimer(item.name, milliseconds: noteDate(index, date), every: 0) { [self] in
                noteCallout { pending in
                    // Together for sure only if the loop has been busy when they came due.
                    let date = pending.dues.removeValue(forKey: index)
                    return date.map { .now < $0 + .milliseconds(2) } ?? false || !pending.raised.isEmpty
                        || pending.queued > 0
                }
                stage.trace(item.name)
            }
        case .observer(let activities, let repeats, let order):
            stage.makeObserver(item.name, activities, repeats: repeats, order: order) { [self] activity in
                call(index, "\(item.name) \(activity.label)")
            }
        }
    }

    private func call(_ index: Int, _ event: String) {
        stage.trace(event)
        let count = calls[index, default: 0]
        calls[index] = count + 1
        if count < script.items[index].callouts.count { perform(script.items[index].callouts[count]) }
    }

    private func order(_ index: Int) -> Int {
        if case .source0(let order) = script.items[index].kind { order } else { 0 }
    }

    // MARK: Where the loops may part

    /// From the next event on.
    private func part() {
        let count = stage.trace.all.count
        pending.withLock { pending in
            if pending.parting == nil { pending.parting = count }
        }
    }

    private func noteDate(_ index: Int, _ date: GeneratedScript.Date) -> Int {
        let milliseconds =
            switch date {
            case .past: -1000
            case .slot(let slot): slot * GeneratedScript.slot - elapsed
            case .far: 60_000
            }
        pending.withLock { $0.dues[index] = .now + .milliseconds(milliseconds) }
        return milliseconds
    }

    private var elapsed: Int { Int(start.duration(to: .now) / .milliseconds(1)) }

    /// Foundation leaves the kernel's timer set for a timer that is taken out, and wakes for nothing.
    private func leave(_ item: Int) {
        let leavesDate = pending.withLock { pending in
            pending.dues[item].map { $0 < .now + .seconds(10) } ?? false
        }
        if leavesDate { part() }
    }

    /// A descriptor has been served: was there another to choose? The kernel's order is another for each loop.
    private func noteCallout(_ note: (inout Pending) -> Bool) {
        let count = stage.trace.all.count
        pending.withLock { pending in
            let isTied = note(&pending) || pending.isWoken
            pending.hadCallout = true
            if isTied, pending.parting == nil { pending.parting = count }
        }
    }

    /// A pass begins. One that served nothing else has used up the wake-ups that came before it.
    private func noteTurn() {
        pending.withLock { pending in
            defer { pending.hadCallout = false }
            if let passes = pending.passesSinceTimer, !pending.hadCallout {
                pending.passesSinceTimer = passes < pending.limits.count ? passes + 1 : nil
            }
            guard let passes = pending.passesSinceWakeUp, !pending.hadCallout else { return }
            // The outer runs' passes began without sleeping, too.
            pending.passesSinceWakeUp = passes < pending.limits.count ? passes + 1 : nil
        }
    }

    // MARK: Actions

    private func perform(_ actions: [Action]) {
        for action in actions { perform(action) }
    }

    private func perform(_ action: Action) {
        switch action {
        case .add(let item, let mode): stage.add(name(of: item), to: name(mode))
        case .remove(let item, let mode):
            leave(item)
            stage.remove(name(of: item), from: name(mode))
        case .invalidate(let item):
            leave(item)
            pending.withLock { _ = $0.raised.remove(item) }
            stage.invalidate(name(of: item))
        case .signal(let item):
            if stage.isValid(name(of: item)) { pending.withLock { _ = $0.signaled.insert(item) } }
            stage.signal(name(of: item))
        case .raise(let item):
            pending.withLock { _ = $0.raised.insert(item) }
            stage.raise(name(of: item))
        case .redate(let item, let date):
            stage.redate(name(of: item), milliseconds: noteDate(item, date))
        case .block(let name, let modes, let body):
            pending.withLock { $0.blocks.queued += 1 }
            stage.block(in: modes.map { self.name($0) }) { [self] in
                pending.withLock { $0.blocks = ($0.blocks.queued - 1, $0.blocks.running + 1) }
                stage.trace(name)
                perform(body)
                pending.withLock { $0.blocks.running -= 1 }
            }
        case .joinCommon(let mode): stage.addCommonMode(name(mode))
        case .stop:
            pending.withLock { $0.passesSinceWakeUp = 0 }
            stage.stop()
        case .wakeUp:
            pending.withLock { $0.passesSinceWakeUp = 0 }
            stage.wakeUp()
        case .run(let mode, let slot, let returning):
            run(mode, until: slot, returning: returning)
        case .ask(let item, let mode):
            let item = name(of: item)
            stage.trace("\(item) \(stage.isValid(item)) \(stage.contains(item, in: name(mode)))")
        case .askModes:
            stage.trace("in \(stage.currentMode ?? "no mode")")
        case .spin(let slots):
            // To the middle of a slot, where no date is.
            let slot = GeneratedScript.slot * 1000
            let now = Int(start.duration(to: .now) / .microseconds(1)) + 300
            let end = start + .microseconds((now / slot + slots) * slot + slot / 2)
            while !end.hasPassed {}
        case .elsewhere(let actions):
            Helper { [self] in performElsewhere(actions) }.join()
        case .later(let slot, let actions):
            let date = start + .milliseconds(slot * GeneratedScript.slot)
            helpers.append(
                Helper { [self] in
                    sleep(until: date)
                    performElsewhere(actions)
                })
        case .mainQueue(let name, let actions):
            pending.withLock { $0.queued += 1 }
            DispatchQueue.main.async { [self] in
                noteCallout { pending in
                    pending.queued -= 1
                    return !pending.raised.isEmpty || pending.hasTimerDue
                }
                stage.trace(name)
                perform(actions)
            }
        }
    }

    private func run(_ mode: Int, until slot: Int?, returning: Bool) {
        let seconds = slot.map { slot in
            max(0, (.milliseconds(slot * GeneratedScript.slot) - start.duration(to: .now)) / .seconds(1))
        }
        let (isWoken, wakesForOuter, hidesBlocks) = pending.withLock { pending in
            defer { pending.limits.append(slot) }
            let outer = pending.limits.compactMap { $0 }
            return (
                pending.isWoken, slot.map { slot in outer.contains { $0 < slot } } ?? false,
                pending.blocks.running > 0 && pending.blocks.queued > 0
            )
        }
        // In Foundation a run takes the wake-ups that are left of the one before it, or were meant for the outer one,
        // even those of a stop, and the inner one makes a pass when an outer one's time is over.
        // While it performs blocks it hides those of other modes from the inner runs, which ours does not.
        if isWoken || wakesForOuter || hidesBlocks { part() }
        let before = pending.withLock { $0.wakeUps }
        stage.run(name(mode), seconds ?? 0, returning: returning)
        // A wake-up that came in the inner run is for the outer one, too; in Foundation it is for the first to sleep.
        let wasWoken = pending.withLock { pending in
            pending.limits.removeLast()
            return !pending.limits.isEmpty && pending.wakeUps != before
        }
        if wasWoken { part() }
    }

    private func performElsewhere(_ actions: [Action]) {
        for action in actions {
            if case .block(let name, let modes, _) = action {
                pending.withLock { $0.passesSinceWakeUp = 0 }
                pending.withLock { $0.blocks.queued += 1 }
                stage.blockAndWake(in: modes.map { self.name($0) }) { [self] in
                    pending.withLock { $0.blocks.queued -= 1 }
                    stage.trace(name)
                }
            } else {
                // To set a date from another thread is a wake-up, too.
                if case .redate = action { pending.withLock { $0.passesSinceWakeUp = 0 } }
                perform(action)
            }
        }
    }
}

extension GeneratedScript {
    /// All have the default mode and two more, used or not.
    func usesMode(_ mode: Int) -> Bool { mode < 3 }
}
