import CRunLoopShims

// How items join and leave modes: one mode after another, as in CFRunLoop, so that each sees the callout of the last.

extension LoopCore {
    struct Walk {
        var modes: ArraySlice<RunLoopMode>
        /// The walk's number among the walks through the common modes.
        var number: Int?
    }

    /// Adds an item to a mode. False when the item is invalid, or another loop's.
    func insert(_ item: Item, forMode mode: RunLoopMode) throws(RunLoopError) -> Bool {
        do throws(RunLoopError) {
            return try insert(item) { state in
                guard mode == .common else { return Walk(modes: [mode]) }
                state.commonItems.insert(item)
                return state.beginCommonWalk(item)
            }
        } catch {
            remove(item, mode)
            throw error
        }
    }

    func insert(_ item: Item, into modes: (inout LoopState) -> Walk) throws(RunLoopError) -> Bool {
        // In a forked child a thread of the parent may hold the lock for ever.
        if crl_is_forked() { throw .forked }
        func mayJoin(_ state: borrowing LoopState) -> Bool { !state.hasEnded && item.mayJoin(self) }
        var (hasEnded, isRefused) = (false, false)
        let hasJoined = try walk(item, telling: \.schedule) { state in
            (hasEnded, isRefused) = (state.hasEnded, !mayJoin(state))
            return isRefused ? Walk(modes: []) : modes(&state)
        } change: { (state, mode) throws(RunLoopError) in
            guard mayJoin(state) else { return false }
            let index = state.madeIndex(of: mode, blocks)
            return try state.modes[index].insert(item, in: self)
        }
        if hasEnded { throw .loopEnded }
        if hasJoined {
            switch item {
            // The descriptor of a raised source does not wake a loop that sleeps.
            case .source1(let source): if source.isRaised { wakeFromOutside() }
            case .source0(let source): if source.isSignaled { Self.wakeDriven { $0 === self } }
            case .timer, .observer: break
            }
        }
        // An invalidation meanwhile may have missed this loop.
        if hasJoined, !item.isValid { removeEverywhere(item) }
        return !isRefused
    }

    func remove(_ item: Item, _ mode: RunLoopMode) {
        remove(item) { state in
            guard mode == .common else { return Walk(modes: [mode]) }
            return state.commonItems.remove(item) ? state.beginCommonWalk(item) : Walk(modes: [])
        }
    }

    func removeEverywhere(_ item: Item) {
        // By index, because a mode taken out would be a copy of all its items.
        remove(item) { state in Walk(modes: state.modes.indices.map { state.modes[$0].mode } + [.common]) }
    }

    private func remove(_ item: Item, from modes: (inout LoopState) -> Walk) {
        if crl_is_forked() { return }
        // Only adding a Source1 throws.
        _ = try? walk(item, telling: \.cancel, begin: modes) { state, mode in
            if mode == .common { _ = state.commonItems.remove(item) }
            guard let index = state.index(of: mode), state.modes[index].remove(item) else { return false }
            if !state.modes.indices.contains(where: { state.modes[$0].contains(item) }) {
                item.leave(self)
                for tape in state.tapes { tape.noteDeparture(of: item) }
            }
            // The kernel's timer of a loop that sleeps in this mode.
            if case .timer = item, isAsleep, state.runs.last?.mode == index { state.modes[index].armTimer() }
            changes.add(1, ordering: .releasing)
            return true
        }
    }

    /// Changes the item's modes one by one; false when none was changed. The lock is released for each callout.
    private func walk(
        _ item: Item, telling callback: (RunLoopSource0) -> RunLoopSource0.Change?, begin: (inout LoopState) -> Walk,
        change: (inout LoopState, RunLoopMode) throws(RunLoopError) -> Bool
    ) throws(RunLoopError) -> Bool {
        var (walk, hasChanged): (Walk?, Bool) = (nil, false)
        var tell: RunLoopSource0.Change?
        while true {
            let changed = try state.withLock { state throws(RunLoopError) -> RunLoopMode? in
                if walk == nil, case .source0(let source) = item {
                    // Taken before a concurrent invalidation releases the callbacks.
                    tell = callback(source)
                }
                var rest = walk ?? begin(&state)
                defer { walk = rest }
                while !state.isOvertaken(rest), let mode = rest.modes.popFirst() {
                    guard try change(&state, mode) else { continue }
                    hasChanged = true
                    if tell != nil { return mode }
                }
                if let number = rest.number { state.commonWalks[number] = nil }
                return nil
            }
            guard let changed, let tell else { return hasChanged }
            tell(self, changed)
        }
    }

    func contains(_ item: Item, _ mode: RunLoopMode) -> Bool {
        if crl_is_forked() { return false }
        // A common timer that was removed from the last of its modes has no owner.
        if case .timer(let timer) = item, timer.membership.owner !== self { return false }
        return state.withLock { state in
            if mode == .common { return state.commonItems.contains(item) }
            return state.index(of: mode).map { state.modes[$0].contains(item) } ?? false
        }
    }

    func requeue(_ timer: RunLoopTimer) {
        if crl_is_forked() { return }
        state.withLock { state in
            for index in state.modes.indices where state.modes[index].timers.contains(timer) {
                state.modes[index].timers.requeue(timer)
                state.modes[index].armForNew(timer)
            }
        }
        wakeFromOutside()
    }

    func noteRaised(_ source: RunLoopSource1) {
        if crl_is_forked() { return }
        state.withLock { state in
            for index in state.modes.indices { state.modes[index].noteRaised(source) }
        }
        wakeFromOutside()
    }

    func mayGoOn(_ source: RunLoopSource1, mode: Int) -> Bool {
        // No mode has an invalid source once the change is counted.
        !isStopped && state.withLock { $0.modes[mode].contains(.source1(source)) }
    }
}
