import CRunLoopShims
import Glibc
import RunLoopLocks

/// The items of one mode of a loop, and its wait set. Guarded by the loop's lock.
struct ModeItems {
    let mode: RunLoopMode

    private var sources0: [ObjectIdentifier: Member] = [:]
    private(set) var sources1: [WaitSet.Token: Watched] = [:]
    private(set) var observers: [RunLoopObserver] = []
    var timers = TimerQueue()
    let flags: ModeFlags

    /// Made with the mode's first Source1, timer or run.
    var waitSet: WaitSet?
    /// Whether the wait set has the loop's wake-ups, so that a run can sleep on it.
    private var isPrepared = false
    private var armed: MonotonicInstant?
    private var watchesMainQueue = false

    /// Raised sources, in the order of their turns.
    private var raised: [WaitSet.Token] = []
    private var hasJustServedRaised = false
    private var tokens: [ObjectIdentifier: WaitSet.Token] = [:]
    /// Sources are numbered in the order of adding.
    private var lastToken = Self.firstSourceToken

    static let wakeToken: WaitSet.Token = 0
    static let timerToken: WaitSet.Token = 1
    static let mainQueueToken: WaitSet.Token = 2
    private static let firstSourceToken: WaitSet.Token = 16

    private struct Member {
        let source: RunLoopSource0
        let token: WaitSet.Token
    }

    struct Watched {
        let source: RunLoopSource1
        let token: WaitSet.Token
        /// The descriptor in the wait set: the source's, or a duplicate.
        let descriptor: Int32
    }

    init(_ mode: RunLoopMode, isCommon: Bool, number: Int) {
        self.mode = mode
        flags = ModeFlags(isCommon: isCommon, number: number)
    }

    var hasNoSourceOrTimer: Bool { sources0.isEmpty && sources1.isEmpty && timers.isEmpty }

    var items: [Item] {
        let ordered = sources0.values.sorted { ($0.source.order, $0.token) < ($1.source.order, $1.token) }
        return ordered.map { .source0($0.source) }
            + sources1.values.sorted { $0.token < $1.token }.map { .source1($0.source) }
            + timers.timers.map(Item.timer) + observers.map(Item.observer)
    }

    /// The item whose callout it is. Not by ``items``: a loop with thousands of items may be asked again and again.
    func item(of callout: Callout) -> Item? {
        guard callout.address != nil else { return nil }
        func item<Items: Sequence<Item>>(among items: Items) -> Item? { items.first { callout.isOf($0.id) } }
        return item(among: sources0.values.lazy.map { .source0($0.source) })
            ?? item(among: sources1.values.lazy.map { .source1($0.source) })
            ?? item(among: timers.timers.lazy.map(Item.timer)) ?? item(among: observers.lazy.map(Item.observer))
    }

    func contains(_ item: Item) -> Bool {
        switch item {
        case .source0(let source): sources0[ObjectIdentifier(source)] != nil
        case .source1(let source): tokens[ObjectIdentifier(source)] != nil
        case .timer(let timer): timers.contains(timer)
        case .observer(let observer): observers.contains { $0 === observer }
        }
    }

    /// False when the mode has the item already, or the item is invalid or another loop's.
    mutating func insert(_ item: Item, in loop: any ItemLoop) throws(RunLoopError) -> Bool {
        guard item.isValid, !contains(item) else { return false }
        switch item {
        case .source0(let source):
            lastToken += 1
            sources0[ObjectIdentifier(source)] = Member(source: source, token: lastToken)
            source.attach(flags)
            source.membership.join(loop)
        case .source1(let source):
            try watch(source)
            source.membership.join(loop)
            if source.isRaised { noteRaised(source) }
        case .timer(let timer):
            guard timer.membership.join(loop, alone: true) else { return false }
            timers.insert(timer)
            // A run throws when no descriptor is left for the wait set.
            _ = try? madeWaitSet()
            armForNew(timer)
        case .observer(let observer):
            guard observer.membership.join(loop, alone: true) else { return false }
            observers.insert(observer, at: observers.firstIndex { $0.order > observer.order } ?? observers.endIndex)
            flags.observersChanged(observers)
        }
        return true
    }

    /// False when the mode does not have the item.
    mutating func remove(_ item: Item) -> Bool {
        switch item {
        case .source0(let source):
            guard sources0.removeValue(forKey: ObjectIdentifier(source)) != nil else { return false }
            source.detach(flags)
        case .source1(let source):
            guard let token = tokens.removeValue(forKey: ObjectIdentifier(source)) else { return false }
            if let watched = sources1.removeValue(forKey: token) { unwatch(watched) }
        case .timer(let timer): return timers.remove(timer)
        case .observer(let observer):
            guard let index = observers.firstIndex(where: { $0 === observer }) else { return false }
            observers.remove(at: index)
            flags.observersChanged(observers)
        }
        return true
    }

    // MARK: The wait set

    /// The wait set for a run. The first run of the loop makes the eventfd that wakes it.
    mutating func preparedWaitSet(_ wakeEvent: borrowing WakeEvent) throws(RunLoopError) -> WaitSet {
        if isPrepared, let waitSet { return waitSet }
        let waitSet = try madeWaitSet()
        // Edge-triggered, because then no thread has to read the counter, which saves a system call per wake-up.
        try waitSet.add(wakeEvent.made(), .readable, once: true, token: Self.wakeToken)
        isPrepared = true
        return waitSet
    }

    /// Begins or ends waiting for libdispatch's main queue. Inside one of its callouts it would keep the loop awake.
    mutating func watchMainQueue(_ watches: Bool) {
        guard watches != watchesMainQueue, let waitSet else { return }
        if watches {
            guard (try? waitSet.add(crl_main_queue_descriptor(), .readable, token: Self.mainQueueToken)) != nil else {
                return
            }
        } else {
            waitSet.remove(crl_main_queue_descriptor())
        }
        watchesMainQueue = watches
    }

    private mutating func madeWaitSet() throws(RunLoopError) -> WaitSet {
        if let waitSet { return waitSet }
        let made = try WaitSet(timerToken: Self.timerToken)
        waitSet = made
        return made
    }

    private mutating func watch(_ source: RunLoopSource1) throws(RunLoopError) {
        let waitSet = try madeWaitSet()
        let descriptor = source.duplicates ? try Descriptor.duplicate(source.descriptor) : source.descriptor
        lastToken += 1
        do throws(RunLoopError) {
            try waitSet.add(descriptor, source.interest, token: lastToken)
        } catch {
            if source.duplicates { close(descriptor) }
            // Named by the number that the caller knows.
            if case .notPollable = error { throw .notPollable(source.descriptor) }
            throw error
        }
        tokens[ObjectIdentifier(source)] = lastToken
        sources1[lastToken] = Watched(source: source, token: lastToken, descriptor: descriptor)
    }

    private func unwatch(_ watched: Watched) {
        waitSet?.remove(watched.descriptor)
        if watched.source.duplicates { close(watched.descriptor) }
    }

    /// The end that the source's descriptor has come to.
    func end(of token: WaitSet.Token) -> Descriptor.End? {
        sources1[token].flatMap { Descriptor.end(of: $0.descriptor, waitedFor: $0.source.interest) }
    }

    /// Stops waiting for an end that the source has handled, because the descriptor would report it again for ever. True
    /// when no other event can follow; false also when the source has cleared an error, or was removed.
    func settleEnd(of token: WaitSet.Token) -> Bool {
        guard let watched = sources1[token], let end = end(of: token) else { return false }
        if end == .reading {
            let rest = watched.source.interest.subtracting([.readable, .readHangUp])
            waitSet?.modify(watched.descriptor, rest, token: token)
        }
        return end == .everything
    }

    mutating func hasTimerDue() -> Bool {
        guard let soonest = timers.soonest() else { return false }
        // The exact clock takes five times as long to read.
        return soonest.nanoseconds < crl_coarse_now() + 1_000_000_000 && soonest.hasPassed
    }

    /// Sets the kernel's timer to the soonest of the mode's timers.
    mutating func armTimer() { arm(timers.soonest()) }

    /// Sets the kernel's timer if it would miss a timer's new date. Not only before a sleep, because the kernel reports
    /// ready descriptors in the order in which they became ready, and another may become ready before the sleep.
    mutating func armForNew(_ timer: RunLoopTimer) {
        if let date = timer.queuedFireDate, date < armed ?? .distantFuture { arm(date) }
    }

    /// The timers that are due. Sets the kernel's timer to the next of the others.
    mutating func takeDueTimers() -> [RunLoopTimer] {
        let (due, next) = timers.due(at: .now)
        arm(next)
        return due
    }

    private mutating func arm(_ date: MonotonicInstant?) {
        guard date != armed, let waitSet else { return }
        waitSet.arm(date)
        armed = date
    }

    // MARK: Raised sources

    mutating func noteRaised(_ source: RunLoopSource1) {
        guard let token = tokens[ObjectIdentifier(source)], !raised.contains(token) else { return }
        raised.append(token)
    }

    /// The raised source whose turn it is, moved to the end of the queue; nil when it is a descriptor's turn.
    mutating func raisedTurn() -> Watched? {
        let turn = hasJustServedRaised ? nil : firstRaised()
        hasJustServedRaised = turn != nil
        if let turn { hadTurn(turn.token) }
        return turn
    }

    /// The first raised source. While there is one, the mode must not sleep. Forgets sources that are not raised any more.
    mutating func firstRaised() -> Watched? {
        while let token = raised.first {
            if let watched = sources1[token], watched.source.isRaised { return watched }
            raised.removeFirst()
        }
        return nil
    }

    func hasRaised(otherThan source: ObjectIdentifier) -> Bool {
        raised.contains { token in
            sources1[token].map { ObjectIdentifier($0.source) != source && $0.source.isRaised } ?? false
        }
    }

    /// The source, if it is the only raised one.
    func onlyRaised(_ source: ObjectIdentifier) -> Watched? {
        guard let watched = tokens[source].flatMap({ sources1[$0] }), watched.source.isRaised else { return nil }
        return hasRaised(otherThan: source) ? nil : watched
    }

    /// Moves a source to the end of the queue of raised sources, after its turn.
    mutating func hadTurn(_ token: WaitSet.Token) {
        guard let index = raised.firstIndex(of: token) else { return }
        raised.append(raised.remove(at: index))
    }
}
