import CRunLoopShims

// How items join modes and leave them: one mode after another, each with its callout, as in CFRunLoop. So what the
// callout of one mode does, the change of the next sees.

extension ThreadRunLoop {
    /// What is left of an item's way through modes.
    struct Walk {
        var modes: ArraySlice<Mode>
        /// Its number among those through the common modes.
        var number: Int?
    }

    /// What becomes of an item that is to join modes.
    enum Joining {
        /// It is invalid, or another loop's.
        case refused
        case alreadyIn
        case joined
    }

    /// Whether the loop takes the item, or has it already.
    func insert(_ item: Item, forMode mode: Mode) throws(RunLoopError) -> Bool {
        do throws(RunLoopError) {
            let joining = try insert(item) { state in
                guard mode == .common else { return Walk(modes: [mode]) }
                if !state.commonItems.contains(where: { $0.id == item.id }) { state.commonItems.append(item) }
                return state.beginCommonWalk(item)
            }
            return joining != .refused
        } catch {
            remove(item, forMode: mode)
            throw error
        }
    }

    func insert(_ item: Item, into modes: (inout State) -> Walk) throws(RunLoopError) -> Joining {
        // A lock may have been taken by a thread that the child does not have.
        if crl_is_forked() { throw .forked }
        func mayJoin(_ state: borrowing State) -> Bool { !state.hasEnded && item.mayJoin(self) }
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
        // It sleeps in ignorance of what the source knows and the descriptor does not tell.
        if case .source1(let source) = item, source.isRaised, hasJoined { wakeUpFromOutside() }
        // Invalidated while it was being added: the invalidation may have missed this loop.
        if hasJoined, !item.isValid { removeEverywhere(item) }
        return isRefused ? .refused : hasJoined ? .joined : .alreadyIn
    }

    func insertWithoutDescriptor(_ item: Item, _ mode: Mode) -> Bool {
        // Only a Source1 needs a descriptor. CFRunLoop's users expect no errors of the others.
        (try? insert(item, forMode: mode)) ?? false
    }

    func remove(_ item: Item, forMode mode: Mode) {
        remove(item) { state in
            guard mode == .common else { return Walk(modes: [mode]) }
            guard let index = state.commonItems.firstIndex(where: { $0.id == item.id }) else { return Walk(modes: []) }
            state.commonItems.remove(at: index)
            return state.beginCommonWalk(item)
        }
    }

    func removeEverywhere(_ item: Item) {
        // By index: a mode taken out would be a copy of all it holds.
        remove(item) { state in Walk(modes: state.modes.indices.map { state.modes[$0].mode } + [.common]) }
    }

    private func remove(_ item: Item, from modes: (inout State) -> Walk) {
        if crl_is_forked() { return }
        // Only a Source1 that joins throws.
        _ = try? walk(item, telling: \.cancel, begin: modes) { state, mode in
            if mode == .common { state.commonItems.removeAll { $0.id == item.id } }
            guard let index = state.index(of: mode), state.modes[index].remove(item, from: self) else { return false }
            if case .timer = item { armIfAsleep(index, &state) }
            changes.add(1, ordering: .releasing)
            return true
        }
    }

    /// Changes the item's modes, until one is changed that its client has to be told of, tells it, and goes on.
    /// Whether any was changed.
    private func walk(
        _ item: Item, telling callback: (Source0) -> Source0.Callback?, begin: (inout State) -> Walk,
        change: (inout State, Mode) throws(RunLoopError) -> Bool
    ) throws(RunLoopError) -> Bool {
        var (walk, hasChanged): (Walk?, Bool) = (nil, false)
        var tell: Source0.Callback?
        while true {
            let changed = try state.withLock { state throws(RunLoopError) -> Mode? in
                if walk == nil, case .source0(let source) = item {
                    // Known before an invalidation that is under way elsewhere lets go of it.
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

    func contains(_ item: Item, forMode mode: Mode) -> Bool {
        if crl_is_forked() { return false }
        // A common timer that was removed from the last of its modes is no longer this loop's.
        if case .timer(let timer) = item, timer.loop !== self { return false }
        return state.withLock { state in
            if mode == .common { return state.commonItems.contains { $0.id == item.id } }
            return state.index(of: mode).map { state.modes[$0].contains(item) } ?? false
        }
    }

    /// A timer's date has changed. That wakes the loop, as it does CFRunLoop.
    func requeue(_ timer: Timer) {
        if crl_is_forked() { return }
        state.withLock { state in
            for index in state.modes.indices where state.modes[index].timers.contains(timer) {
                state.modes[index].timers.requeue(timer)
                state.modes[index].armForNew(timer)
            }
        }
        wakeUpFromOutside()
    }

    /// A loop that sleeps in this mode now has the kernel's timer set anew under its feet.
    private func armIfAsleep(_ mode: Int, _ state: inout State) {
        if isWaiting, state.runs.last?.mode == mode { state.modes[mode].armTimer() }
    }

    /// A source has work that its descriptor does not tell of.
    func noteRaised(_ source: Source1) {
        if crl_is_forked() { return }
        state.withLock { state in
            for index in state.modes.indices { state.modes[index].noteRaised(source) }
        }
        wakeUpFromOutside()
    }

    /// Whether the source's turn may go on after something has changed.
    func mayGoOn(_ source: Source1, mode: Int) -> Bool {
        // No mode has an invalid source once the change is counted.
        state.withLock { $0.runs.last?.isStopped == false && $0.modes[mode].contains(.source1(source)) }
    }
}

extension ThreadRunLoop.State {
    /// A walk through the common modes. It is the last: the ones of other threads with the item end, so that the item
    /// is in all of the modes or in none. Those of the same thread, inside whose callouts it is, go on, as CFRunLoop's.
    fileprivate mutating func beginCommonWalk(_ item: Item) -> ThreadRunLoop.Walk {
        // No other calls out between two modes.
        guard case .source0 = item else { return ThreadRunLoop.Walk(modes: commonModes[...]) }
        let thread = crl_thread_id()
        commonWalks = commonWalks.filter { $0.value.item != item.id || $0.value.thread == thread }
        lastCommonWalk += 1
        commonWalks[lastCommonWalk] = (item.id, thread)
        return ThreadRunLoop.Walk(modes: commonModes[...], number: lastCommonWalk)
    }

    fileprivate func isOvertaken(_ walk: ThreadRunLoop.Walk) -> Bool {
        walk.number.map { commonWalks[$0] == nil } ?? false
    }
}
