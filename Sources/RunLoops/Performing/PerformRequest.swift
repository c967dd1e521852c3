import Synchronization

extension ThreadRunLoop {
    /// A closure that a loop is to call once, in the hands of who may take it back.
    /// The corresponding methods are NSObject's `performSelector:withObject:afterDelay:inModes:` and NSRunLoop's
    /// `performSelector:target:argument:order:modes:`.
    ///
    /// The closure is called whether or not the request is kept.
    public final class PerformRequest: Sendable {
        private let isOver = Atomic(false)
        /// What stands for it in the loop, and holds the closure.
        private let item = Mutex(WeakItem())
        private let owner: RequestOwner?

        private struct WeakItem {
            weak var item: (any Invalidatable)?
        }

        /// Makes a request, with the loop's knowledge where it has an owner.
        init(owner: (any AnyObject & Sendable)?, in loop: ThreadRunLoop) {
            self.owner = owner.map { RequestOwner($0, loop.ownedRequests) }
            if let owner { loop.ownedRequests.insert(self, of: owner) }
        }

        /// Makes a request without an owner.
        init() { owner = nil }

        // One that its loop has dropped is still noted as its owner's.
        deinit { _ = end() }

        /// Whether the closure is still to be called.
        public var isPending: Bool {
            !isOver.load(ordering: .acquiring) && isWanted && item.withLock { $0.item } != nil
        }

        /// Takes the request back: a closure that has not begun will not be called. Any thread may call it, any number
        /// of times. The corresponding method is NSRunLoop's `cancelPerformSelector:target:argument:`.
        public func cancel() {
            guard end() else { return }
            // After the lock: what the closure has captured may call back in here when it is let go of.
            item.withLock { $0.item }?.invalidate()
        }

        /// Calls the body, the one time, unless the request was cancelled.
        func perform(_ body: () -> Void) {
            let isWanted = isWanted
            guard end() else { return }
            item.withLock { $0.item }?.invalidate()
            if isWanted { body() }
        }

        func isMade(of item: some Invalidatable) { self.item.withLock { $0.item = item } }

        /// A request dies with its owner.
        private var isWanted: Bool { owner == nil || owner?.object != nil }

        func isOwned(by object: any AnyObject & Sendable) -> Bool { owner?.object === object }

        /// False when it has begun, or was cancelled.
        private func end() -> Bool {
            guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return false }
            if let owner { owner.requests.remove(self, of: owner.identity) }
            return true
        }
    }

    /// Calls a closure once, in the next pass of one of the modes. Requests of one pass are called by their order,
    /// among the ``Source0``s. Any thread may call it; a call from another thread wakes the loop.
    /// The corresponding method is NSRunLoop's `performSelector:target:argument:order:modes:`.
    ///
    /// Like any source, a request keeps its modes from being empty, and counts as a handled one. A pass calls all requests
    /// that wait, in a run that returns after a source too.
    ///
    /// - Parameters:
    ///   - order: Lower orders are called first; equal ones as they were asked for.
    ///   - modes: The modes in which it may be called; one at least.
    ///   - owner: What the request is for, to be told by ``cancelPerformRequests(of:)``. It is not retained: when it
    ///     is gone, the closure is not called.
    ///   - body: Called on the loop's thread.
    /// - Returns: A way to take the request back. The request is not pending when the loop's thread has ended, or the
    ///   process is a forked child.
    @discardableResult
    public func perform(
        order: Int, inModes modes: [Mode] = [.default], owner: (any AnyObject & Sendable)? = nil,
        _ body: @escaping @Sendable () -> Void
    ) -> PerformRequest {
        contract(!modes.isEmpty, Self.noMode)
        let request = PerformRequest(owner: owner, in: self)
        let source = Source0(requestOfOrder: order) { request.perform(body) }
        request.isMade(of: source)
        source.signal()
        for mode in modes { add(source, forMode: mode) }
        wakeUpFromOutside()
        return request
    }

    /// Calls a closure once, after a while, in one of the modes. Any thread may call it.
    /// The corresponding method is NSObject's `performSelector:withObject:afterDelay:inModes:`.
    ///
    /// It is a ``Timer``: it keeps its modes from being empty.
    ///
    /// - Parameters:
    ///   - delay: The time from now on. Nothing or less: in the next pass.
    ///   - modes: The modes in which it may be called; one at least.
    ///   - owner: What the request is for, to be told by ``cancelPerformRequests(of:)``. It is not retained: when it
    ///     is gone, the closure is not called.
    ///   - body: Called on the loop's thread.
    /// - Returns: A way to take the request back. The request is not pending when the loop's thread has ended, or the
    ///   process is a forked child.
    @discardableResult
    public func perform(
        after delay: Duration, inModes modes: [Mode] = [.default], owner: (any AnyObject & Sendable)? = nil,
        _ body: @escaping @Sendable () -> Void
    ) -> PerformRequest {
        contract(!modes.isEmpty, Self.noMode)
        let request = PerformRequest(owner: owner, in: self)
        let timer = Timer(after: delay) { _ in request.perform(body) }
        request.isMade(of: timer)
        for mode in modes { add(timer, forMode: mode) }
        return request
    }

    /// Cancels every request of this loop that is for an object. Any thread may call it.
    /// The corresponding methods are NSObject's `cancelPreviousPerformRequestsWithTarget:` and NSRunLoop's
    /// `cancelPerformSelectorsWithTarget:`.
    public func cancelPerformRequests(of owner: any AnyObject & Sendable) {
        for request in ownedRequests.all(of: owner) { request.cancel() }
    }
}

/// What can stand for a request.
protocol Invalidatable: AnyObject, Sendable {
    func invalidate()
}

extension ThreadRunLoop.Source0: Invalidatable {}
extension ThreadRunLoop.Timer: Invalidatable {}
