import CRunLoopShims

/// The items of the common modes, in the order in which they have joined.
struct CommonItems {
    private var joined: [ObjectIdentifier: (number: Int, item: Item)] = [:]
    private var lastNumber = 0

    var all: [Item] { joined.values.sorted { $0.number < $1.number }.map(\.item) }

    func contains(_ item: Item) -> Bool { joined[item.id] != nil }

    mutating func insert(_ item: Item) {
        if contains(item) { return }
        lastNumber += 1
        joined[item.id] = (lastNumber, item)
    }

    /// - Returns: Whether the item was there.
    mutating func remove(_ item: Item) -> Bool { joined.removeValue(forKey: item.id) != nil }
}

// Which modes are common.

extension LoopCore {
    /// Whether the mode's membership has changed.
    func setCommon(_ mode: RunLoopMode, _ isCommon: Bool) -> Bool {
        state.withLock { state in
            guard mode != .common, state.commonModes.contains(mode) != isCommon else { return false }
            if isCommon { state.commonModes.append(mode) } else { state.commonModes.removeAll { $0 == mode } }
            if let index = state.index(of: mode) {
                state.modes[index].flags.isCommon.store(isCommon, ordering: .releasing)
            }
            return true
        }
    }
}

extension LoopState {
    /// Begins a walk through the common modes. It ends the walks of other threads with the same item, so that the item
    /// is in all of the modes or in none. Walks further up the same thread's stack go on, as in CFRunLoop.
    mutating func beginCommonWalk(_ item: Item) -> LoopCore.Walk {
        // Other items have no callout between two modes.
        guard case .source0 = item else { return LoopCore.Walk(modes: commonModes[...]) }
        let threadID = crl_thread_id()
        commonWalks = commonWalks.filter { $0.value.item != item.id || $0.value.threadID == threadID }
        lastCommonWalk += 1
        commonWalks[lastCommonWalk] = (item.id, threadID)
        return LoopCore.Walk(modes: commonModes[...], number: lastCommonWalk)
    }

    func isOvertaken(_ walk: LoopCore.Walk) -> Bool {
        walk.number.map { commonWalks[$0] == nil } ?? false
    }
}
