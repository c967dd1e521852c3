import Synchronization

extension ThreadRunLoop {
    /// A closure that a loop is to call once, and that can be cancelled. The corresponding methods are NSObject's
    /// `performSelector:withObject:afterDelay:inModes:` and NSRunLoop's `performSelector:target:argument:order:modes:`.
    ///
    /// The closure is called whether or not the request is retained.
    public final class PerformRequest: Sendable {
        private let isOver = Atomic(false)
        private let holder = Mutex(WeakHolder())
        fileprivate weak let owner: (any AnyObject & Sendable)?
        /// Where the loop notes the request; nil without an owner.
        private let noted: OwnedRequests?

        private struct WeakHolder {
            weak var holder: (any RequestHolder)?
            var number: UInt64 = 0
        }

        init(owner: (any AnyObject & Sendable)? = nil, in requests: OwnedRequests? = nil) {
            self.owner = owner
            noted = owner == nil ? nil : requests
            noted?.insert(self)
        }

        // A request that its loop has dropped is still noted.
        deinit { _ = end() }

        /// Whether the closure is still to be called.
        public var isPending: Bool {
            !isOver.load(ordering: .acquiring) && isWanted && holder.withLock { $0.holder } != nil
        }

        /// Cancels the request: a closure that has not begun is not called. Any thread may call it, any number of
        /// times. The corresponding method is NSRunLoop's `cancelPerformSelector:target:argument:`.
        public func cancel() { if end() { releaseClosure() } }

        func perform(_ body: () -> Void) {
            let isWanted = isWanted
            guard end() else { return }
            releaseClosure()
            if isWanted { body() }
        }

        func isHeld(by holder: some RequestHolder, number: UInt64 = 0) {
            self.holder.withLock { $0 = WeakHolder(holder: holder, number: number) }
        }

        private func releaseClosure() {
            // After the lock: what the closure has captured may call back into the request when it is released.
            let held = holder.withLock { $0 }
            held.holder?.release(held.number)
        }

        /// Whether the owner, if there is one, is still there.
        private var isWanted: Bool { noted == nil || owner != nil }

        /// False when the closure was called already, or the request was cancelled.
        private func end() -> Bool {
            guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return false }
            noted?.remove(self)
            return true
        }
    }

    /// Calls a closure once, in the next pass of one of the modes. Requests of one pass are called by their order,
    /// among the ``Source0``s. Any thread may call it; a call from another thread wakes the loop.
    /// The corresponding method is NSRunLoop's `performSelector:target:argument:order:modes:`.
    ///
    /// Like any source, a request keeps its modes from being empty, and counts as a handled source. A pass calls all
    /// requests that wait, also in a run that returns after a source.
    /// - Parameters:
    ///   - order: Requests of lower order are called first; requests of equal order in the order they were made.
    ///   - modes: The modes in which the closure may be called; at least one.
    ///   - owner: The object that the request is for; see ``cancelPerformRequests(of:)``. The object is not retained:
    ///     after its end the closure is not called.
    ///   - body: Called on the loop's thread.
    /// - Returns: The request. It is not pending when the loop's thread has ended, or the process is a forked child.
    @discardableResult
    public func perform(
        order: Int, inModes modes: [Mode] = [.default], owner: (any AnyObject & Sendable)? = nil,
        _ body: @escaping @Sendable () -> Void
    ) -> PerformRequest {
        contract(!modes.isEmpty, Self.noMode)
        let request = PerformRequest(owner: owner, in: ownedRequests)
        let source = Source0(order: order, isRequest: true) { request.perform(body) }
        request.isHeld(by: source)
        source.signal()
        for mode in modes { add(source, forMode: mode) }
        wakeUpFromOutside()
        return request
    }

    /// Calls a closure once, after a delay, in one of the modes; with a delay of zero or less, in the next pass. Any
    /// thread may call it. Modes and owner are as in ``perform(order:inModes:owner:_:)``.
    /// The corresponding method is NSObject's `performSelector:withObject:afterDelay:inModes:`.
    ///
    /// Like any ``Timer``, the request keeps its modes from being empty.
    /// - Returns: The request. It is not pending when the loop's thread has ended, or the process is a forked child.
    @discardableResult
    public func perform(
        after delay: Duration, inModes modes: [Mode] = [.default], owner: (any AnyObject & Sendable)? = nil,
        _ body: @escaping @Sendable () -> Void
    ) -> PerformRequest {
        contract(!modes.isEmpty, Self.noMode)
        let request = PerformRequest(owner: owner, in: ownedRequests)
        let timer = Timer(after: delay) { _ in request.perform(body) }
        request.isHeld(by: timer)
        for mode in modes { add(timer, forMode: mode) }
        return request
    }

    /// Cancels all requests of this loop that are for an object. Any thread may call it. The corresponding methods are
    /// NSObject's `cancelPreviousPerformRequestsWithTarget:` and NSRunLoop's `cancelPerformSelectorsWithTarget:`.
    public func cancelPerformRequests(of owner: any AnyObject & Sendable) {
        for request in ownedRequests.all(of: owner) { request.cancel() }
    }
}

/// What retains the closures of requests: an item of a loop retains one, an ``ThreadRunLoop/IdleQueue`` many, by number.
protocol RequestHolder: AnyObject, Sendable { func release(_ number: UInt64) }

extension ThreadRunLoop.Source0: RequestHolder { func release(_: UInt64) { invalidate() } }

extension ThreadRunLoop.Timer: RequestHolder { func release(_: UInt64) { invalidate() } }

/// The requests of a loop that are for an object.
final class OwnedRequests: Sendable {
    /// A class: a dictionary corrupts weak references inside its values (Swift 6.3, debug).
    private final class Entry: Sendable {
        weak let request: ThreadRunLoop.PerformRequest?
        init(_ request: ThreadRunLoop.PerformRequest) { self.request = request }
    }

    private let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    func insert(_ request: ThreadRunLoop.PerformRequest) {
        entries.withLock { $0[ObjectIdentifier(request)] = Entry(request) }
    }

    func remove(_ request: ThreadRunLoop.PerformRequest) { entries.withLock { $0[ObjectIdentifier(request)] = nil } }

    func all(of owner: any AnyObject & Sendable) -> [ThreadRunLoop.PerformRequest] {
        entries.withLock { $0.values.compactMap(\.request) }.filter { $0.owner === owner }
    }
}
