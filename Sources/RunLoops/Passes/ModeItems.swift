import CRunLoopShims

/// What a loop holds under one mode's name. Guarded by the loop's lock.
struct ModeItems {
    let mode: ThreadRunLoop.Mode

    private var sources0: [ObjectIdentifier: Member] = [:]
    private(set) var sources1: [WaitSet.Token: Watched] = [:]
    private(set) var observers: [ThreadRunLoop.Observer] = []
    var timers = TimerQueue()
    let flags: ModeFlags

    /// What the mode sleeps on; made when a source needs it, or a run.
    private(set) var waitSet: WaitSet?
    private var isPrepared = false
    private var timerDescriptor: TimerDescriptor?
    private var armed: MonotonicInstant?
    private var watchesMainQueue = false

    /// Sources that have work whatever their descriptors tell, in the order in which their turns come.
    private var raised: [WaitSet.Token] = []
    private var hasJustServedRaised = false
    private var tokens: [ObjectIdentifier: WaitSet.Token] = [:]
    private var lastToken = Self.firstSourceToken

    static let wakeToken: WaitSet.Token = 0
    static let timerToken: WaitSet.Token = 1
    static let mainQueueToken: WaitSet.Token = 2
    private static let firstSourceToken: WaitSet.Token = 16

    /// A source, and the number of its coming.
    private struct Member {
        let source: ThreadRunLoop.Source0
        let number: Int
    }

    private var lastNumber = 0

    struct Watched {
        let source: ThreadRunLoop.Source1
        let token: WaitSet.Token
        /// The descriptor in the wait set, the mode's own when the source asks for a duplicate.
        let descriptor: Int32
    }

    init(_ mode: ThreadRunLoop.Mode, isCommon: Bool, number: Int) {
        self.mode = mode
        flags = ModeFlags(isCommon: isCommon, number: number)
    }

    var hasNoSourceOrTimer: Bool { sources0.isEmpty && sources1.isEmpty && timers.isEmpty }

    var items: [Item] {
        sources0.values.sorted { ($0.source.order, $0.number) < ($1.source.order, $1.number) }.map {
            .source0($0.source)
        }
            + sources1.values.sorted { $0.token < $1.token }.map { .source1($0.source) }
            + timers.timers.map(Item.timer)
            + observers.map(Item.observer)
    }

    func contains(_ item: Item) -> Bool {
        switch item {
        case .source0(let source): sources0[ObjectIdentifier(source)] != nil
        case .source1(let source): tokens[ObjectIdentifier(source)] != nil
        case .timer(let timer): timers.contains(timer)
        case .observer(let observer): observers.contains { $0 === observer }
        }
    }

    /// True when it was not there before.
    mutating func insert(_ item: Item, in loop: ThreadRunLoop) throws(RunLoopError) -> Bool {
        guard item.isValid, !contains(item) else { return false }
        switch item {
        case .source0(let source):
            lastNumber += 1
            sources0[ObjectIdentifier(source)] = Member(source: source, number: lastNumber)
            source.attach(flags)
            source.membership.join(loop)
        case .source1(let source):
            try watch(source)
            source.membership.join(loop)
            if source.isRaised { noteRaised(source) }
        case .timer(let timer):
            guard timer.attach(to: loop) else { return false }
            timers.insert(timer)
            // Without a descriptor for it a run will say so.
            try? makeTimerDescriptor()
            armForNew(timer)
        case .observer(let observer):
            guard observer.attach(to: loop) else { return false }
            observers.insert(observer, at: observers.firstIndex { $0.order > observer.order } ?? observers.endIndex)
            flags.observersChanged(observers)
        }
        return true
    }

    /// True when it was there.
    mutating func remove(_ item: Item, from loop: ThreadRunLoop) -> Bool {
        switch item {
        case .source0(let source):
            guard sources0.removeValue(forKey: ObjectIdentifier(source)) != nil else { return false }
            source.detach(flags)
            source.membership.leave(loop)
        case .source1(let source):
            guard let token = tokens.removeValue(forKey: ObjectIdentifier(source)) else { return false }
            if let watched = sources1.removeValue(forKey: token) { unwatch(watched) }
            source.membership.leave(loop)
        case .timer(let timer):
            guard timers.remove(timer) else { return false }
            timer.detach()
        case .observer(let observer):
            guard let index = observers.firstIndex(where: { $0 === observer }) else { return false }
            observers.remove(at: index)
            flags.observersChanged(observers)
            observer.detach()
        }
        return true
    }

    // MARK: The wait set

    /// What a run of the mode sleeps on; nil before the first.
    var readyWaitSet: WaitSet? { isPrepared ? waitSet : nil }

    /// Makes the mode ready to sleep.
    mutating func prepareWaitSet(wake: EventDescriptor) throws(RunLoopError) -> WaitSet {
        let waitSet = try madeWaitSet()
        try makeTimerDescriptor()
        // In edges: the counter need never be read, and a wake-up costs one system call less.
        try waitSet.add(wake.descriptor, .readable, trigger: .edge, token: Self.wakeToken)
        isPrepared = true
        return waitSet
    }

    private mutating func makeTimerDescriptor() throws(RunLoopError) {
        guard timerDescriptor == nil else { return }
        let made = try TimerDescriptor()
        try madeWaitSet().add(made.descriptor, .readable, token: Self.timerToken)
        timerDescriptor = made
    }

    /// Gives up what it sleeps on, for good.
    mutating func takeDescriptors() -> (WaitSet?, TimerDescriptor?) {
        defer { (waitSet, timerDescriptor, isPrepared) = (nil, nil, false) }
        return (waitSet, timerDescriptor)
    }

    /// Waits for libdispatch's main queue, or no longer: inside one of its callouts it would only keep the loop awake.
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
        let made = try WaitSet()
        waitSet = made
        return made
    }

    private mutating func watch(_ source: ThreadRunLoop.Source1) throws(RunLoopError) {
        let waitSet = try madeWaitSet()
        let descriptor = source.duplicates ? try Descriptor.duplicate(source.descriptor) : source.descriptor
        lastToken += 1
        do throws(RunLoopError) {
            try waitSet.add(descriptor, source.interest, token: lastToken)
        } catch {
            if source.duplicates { Descriptor.close(descriptor) }
            // The caller knows the number of the original.
            if case .notPollable = error { throw .notPollable(source.descriptor) }
            throw error
        }
        tokens[ObjectIdentifier(source)] = lastToken
        sources1[lastToken] = Watched(source: source, token: lastToken, descriptor: descriptor)
    }

    private func unwatch(_ watched: Watched) {
        waitSet?.remove(watched.descriptor)
        if watched.source.duplicates { Descriptor.close(watched.descriptor) }
    }

    /// What the source's descriptor will not tell anything new of.
    func end(of token: WaitSet.Token) -> Descriptor.End? {
        sources1[token].flatMap { Descriptor.end(of: $0.descriptor, waitedFor: $0.source.interest) }
    }

    /// Waits on for what is not reading.
    func stopReading(_ token: WaitSet.Token) {
        guard let watched = sources1[token] else { return }
        let rest = watched.source.interest.subtracting([.readable, .readHangUp])
        waitSet?.modify(watched.descriptor, rest, token: token)
    }

    mutating func hasTimerDue() -> Bool {
        guard let soonest = timers.soonest() else { return false }
        // The exact time takes five times as long to ask for.
        return soonest.nanoseconds < crl_coarse_now() + 1_000_000_000 && soonest.hasPassed
    }

    /// Sets the kernel's timer to the soonest of ours, if it is not there already.
    mutating func armTimer() { arm(timers.soonest()) }

    /// Sets the kernel's timer when it would miss a timer's new date. Not at the sleep only: the kernel names what is
    /// ready in the order in which that came, and a descriptor may become ready before the loop sleeps.
    mutating func armForNew(_ timer: ThreadRunLoop.Timer) {
        if let date = timer.queuedFireDate, date < armed ?? .distantFuture { arm(date) }
    }

    /// The timers that are due. The kernel's timer is set to the next of the others.
    mutating func takeDueTimers() -> [ThreadRunLoop.Timer] {
        let (due, next) = timers.due(at: .now)
        arm(next)
        return due
    }

    private mutating func arm(_ date: MonotonicInstant?) {
        guard date != armed, let timerDescriptor else { return }
        timerDescriptor.arm(date)
        armed = date
    }

    // MARK: Raised sources

    mutating func noteRaised(_ source: ThreadRunLoop.Source1) {
        guard let token = tokens[ObjectIdentifier(source)], !raised.contains(token) else { return }
        raised.append(token)
    }

    /// The raised source whose turn it is, which goes to the end of the queue; nil when it is a descriptor's turn.
    mutating func raisedTurn() -> Watched? {
        let turn = hasJustServedRaised ? nil : nextRaised()
        hasJustServedRaised = turn != nil
        return turn
    }

    private mutating func nextRaised() -> Watched? {
        while let token = raised.first {
            raised.removeFirst()
            guard let watched = sources1[token], watched.source.isRaised else { continue }
            raised.append(token)
            return watched
        }
        return nil
    }

    /// Whether a source is raised: then the mode does not sleep.
    mutating func hasRaised() -> Bool {
        while let token = raised.first {
            if sources1[token]?.source.isRaised == true { return true }
            raised.removeFirst()
        }
        return false
    }

    /// Puts the raised source with this token at the end of the queue: it has just had a turn.
    mutating func hadTurn(_ token: WaitSet.Token) {
        guard let index = raised.firstIndex(of: token) else { return }
        raised.append(raised.remove(at: index))
    }
}
