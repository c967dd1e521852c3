import CRunLoopShims

// The calls that put items into modes and take them out.

extension ThreadRunLoop {
    /// Makes a mode common, with all common items. The corresponding CF function is `CFRunLoopAddCommonMode`.
    /// - Throws: ``RunLoopError`` when the thread has ended, or no descriptor is left. Then nothing has changed.
    public func addCommonMode(_ mode: Mode) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        if hasEnded { throw .loopEnded }
        guard setCommon(mode, true) else { return }
        Self.wakeDriven { $0 === self }
        var joined: [Item] = []
        do throws(RunLoopError) {
            for item in state.withLock({ $0.commonItems.all }) where !contains(item, mode) {
                _ = try insert(item) { state in
                    // The item may have been removed meanwhile.
                    Walk(modes: state.commonItems.contains(item) ? [mode] : [])
                }
                joined.append(item)
            }
        } catch {
            // All or nothing.
            _ = setCommon(mode, false)
            for item in joined { remove(item, mode) }
            throw error
        }
    }

    /// Adds a source; does nothing if the mode has the source. The corresponding CF function is `CFRunLoopAddSource`.
    /// - Returns: False when the source is not added because it is invalid.
    /// - Throws: ``RunLoopError``: `loopEnded` when the thread has ended, and `forked` in a forked child.
    @discardableResult
    public func add(_ source: Source0, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.source0(source), forMode: mode)
    }

    /// Adds a source; does nothing if the mode has the source. The corresponding CF function is `CFRunLoopAddSource`.
    /// - Returns: False when the source is not added because it is invalid.
    /// - Throws: ``RunLoopError`` when the descriptor cannot be waited for, none is left, or the thread has ended.
    @discardableResult
    public func add(_ source: Source1, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.source1(source), forMode: mode)
    }

    /// Adds a timer. The corresponding CF function is `CFRunLoopAddTimer`.
    /// - Returns: False when the timer is not added because it is invalid or belongs to another loop.
    /// - Throws: ``RunLoopError``: `loopEnded` when the thread has ended, and `forked` in a forked child.
    @discardableResult
    public func add(_ timer: Timer, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.timer(timer), forMode: mode)
    }

    /// Adds an observer. The corresponding CF function is `CFRunLoopAddObserver`.
    /// - Returns: False when the observer is not added because it is invalid or belongs to another loop.
    /// - Throws: ``RunLoopError``: `loopEnded` when the thread has ended, and `forked` in a forked child.
    @discardableResult
    public func add(_ observer: Observer, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.observer(observer), forMode: mode)
    }

    /// Removes a source from a mode. The corresponding CF function is `CFRunLoopRemoveSource`.
    public func remove(_ source: Source0, forMode mode: Mode = .default) { remove(.source0(source), mode) }

    /// Removes a source from a mode. The corresponding CF function is `CFRunLoopRemoveSource`.
    public func remove(_ source: Source1, forMode mode: Mode = .default) { remove(.source1(source), mode) }

    /// Removes a timer from a mode. The corresponding CF function is `CFRunLoopRemoveTimer`.
    public func remove(_ timer: Timer, forMode mode: Mode = .default) { remove(.timer(timer), mode) }

    /// Removes an observer from a mode. The corresponding CF function is `CFRunLoopRemoveObserver`.
    public func remove(_ observer: Observer, forMode mode: Mode = .default) { remove(.observer(observer), mode) }

    /// Whether a mode has the source. The corresponding CF function is `CFRunLoopContainsSource`.
    public func contains(_ source: Source0, forMode mode: Mode = .default) -> Bool { contains(.source0(source), mode) }

    /// Whether a mode has the source. The corresponding CF function is `CFRunLoopContainsSource`.
    public func contains(_ source: Source1, forMode mode: Mode = .default) -> Bool { contains(.source1(source), mode) }

    /// Whether a mode has the timer. The corresponding CF function is `CFRunLoopContainsTimer`.
    public func contains(_ timer: Timer, forMode mode: Mode = .default) -> Bool { contains(.timer(timer), mode) }

    /// Whether a mode has the observer. The corresponding CF function is `CFRunLoopContainsObserver`.
    public func contains(_ observer: Observer, forMode mode: Mode = .default) -> Bool {
        contains(.observer(observer), mode)
    }
}
