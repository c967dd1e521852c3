import CRunLoopShims

// How items join modes and leave them.

extension ThreadRunLoop {
    func insert(_ item: Item, forMode mode: Mode) throws(RunLoopError) {
        do throws(RunLoopError) {
            try insert(item) { state in
                guard mode == .common else { return [state.madeIndex(of: mode, blocks)] }
                if !state.commonItems.contains(where: { $0.id == item.id }) { state.commonItems.append(item) }
                return state.commonModes.map { state.madeIndex(of: $0, blocks) }
            }
        } catch {
            remove(item, forMode: mode)
            throw error
        }
    }

    /// Whether it was in none of the modes before, and is in one now.
    @discardableResult
    func insert(_ item: Item, into targets: (inout State) -> [Int]) throws(RunLoopError) -> Bool {
        // A lock may have been taken by a thread that the child does not have.
        if crl_is_forked() { throw .forked }
        var (added, schedule): ([Mode], Source0.Callback?) = ([], nil)
        let error = state.withLock { state -> RunLoopError? in
            guard !state.hasEnded, item.mayJoin(self) else { return nil }
            if case .source0(let source) = item { schedule = source.schedule }
            do throws(RunLoopError) {
                for index in targets(&state) where try state.modes[index].insert(item, in: self) {
                    added.append(state.modes[index].mode)
                    if case .timer = item { armIfAsleep(index, &state) }
                }
                return nil
            } catch {
                return error
            }
        }
        if let schedule {
            for mode in added { schedule(self, mode) }
        }
        if let error { throw error }
        // It sleeps in ignorance of what the source knows and the descriptor does not tell.
        if case .source1(let source) = item, source.isRaised, !added.isEmpty, !isCurrent { wakeUp() }
        // Invalidated while it was being added: the invalidation may have missed this loop.
        if !item.isValid { removeEverywhere(item) }
        return !added.isEmpty
    }

    func insertWithoutDescriptor(_ item: Item, _ mode: Mode) {
        // Only a Source1 throws.
        try? insert(item, forMode: mode)
    }

    func remove(_ item: Item, forMode mode: Mode) {
        remove(item) { state in
            guard mode == .common else { return state.index(of: mode).map { [$0] } ?? [] }
            guard let index = state.commonItems.firstIndex(where: { $0.id == item.id }) else { return [] }
            state.commonItems.remove(at: index)
            return state.commonModes.compactMap { state.index(of: $0) }
        }
    }

    func removeEverywhere(_ item: Item) {
        remove(item) { state in
            state.commonItems.removeAll { $0.id == item.id }
            return Array(state.modes.indices)
        }
    }

    private func remove(_ item: Item, from targets: (inout State) -> [Int]) {
        if crl_is_forked() { return }
        var (removed, cancel): ([Mode], Source0.Callback?) = ([], nil)
        state.withLock { state in
            // Known before an invalidation that is under way elsewhere lets go of it.
            if case .source0(let source) = item { cancel = source.cancel }
            for index in targets(&state) where state.modes[index].remove(item, from: self) {
                removed.append(state.modes[index].mode)
                if case .timer = item { armIfAsleep(index, &state) }
            }
        }
        changes.add(1, ordering: .releasing)
        if let cancel {
            for mode in removed { cancel(self, mode) }
        }
    }

    func contains(_ item: Item, forMode mode: Mode) -> Bool {
        // A common timer that was removed from the last of its modes is no longer this loop's.
        if case .timer(let timer) = item, !timer.belongs(to: self) { return false }
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
            }
        }
        if !isCurrent { wakeUp() }
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
        if !isCurrent { wakeUp() }
    }

    /// Whether the source's turn may go on after something has changed.
    func mayGoOn(_ source: Source1, mode: Int) -> Bool {
        source.isValid
            && state.withLock { state in
                state.runs.last?.isStopped == false && state.modes[mode].contains(.source1(source))
            }
    }
}
