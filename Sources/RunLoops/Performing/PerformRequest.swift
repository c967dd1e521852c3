import Synchronization

extension ThreadRunLoop {
    /// A closure that a loop is to call once, whether or not the request is retained, and that can be cancelled.
    public final class PerformRequest: Sendable {
        private struct State {
            var body: (@Sendable () -> Void)?
            /// The loop's source or timer for the request; nil for a task of an ``IdleQueue``.
            weak var item: (any RequestItem)?
        }

        private let state: Mutex<State>
        fileprivate weak let owner: (any AnyObject & Sendable)?
        /// Where the loop notes the request; nil without an owner.
        private let noted: OwnedRequests?

        init(
            owner: (any AnyObject & Sendable)? = nil, in requests: OwnedRequests? = nil,
            _ body: @escaping @Sendable () -> Void
        ) {
            state = Mutex(State(body: body))
            self.owner = owner
            noted = owner == nil ? nil : requests
            noted?.insert(self)
        }

        /// Whether the closure is still to be called.
        public var isPending: Bool { isWanted && state.withLock { $0.body != nil } }

        /// Cancels the request: a closure that has not begun is not called. Any thread may call it, any number of
        /// times. The corresponding method is NSRunLoop's `cancelPerformSelector:target:argument:`.
        public func cancel() { _ = takeBody() }

        func perform() {
            let isWanted = isWanted
            if let body = takeBody(), isWanted { body() }
        }

        fileprivate func isCalled(by item: some RequestItem) {
            let isOver = state.withLock { state in
                state.item = item
                return state.body == nil
            }
            // Another thread has cancelled all requests of the owner meanwhile.
            if isOver { item.invalidate() }
        }

        /// Whether the owner, if there is one, is still there.
        private var isWanted: Bool { noted == nil || owner != nil }

        /// Ends the request. The closure is released after the lock: its captures may call back into the request.
        fileprivate func takeBody() -> (@Sendable () -> Void)? {
            let (body, item) = state.withLock { ($0.body.take(), $0.item) }
            guard let body else { return nil }
            noted?.remove(self)
            item?.invalidate()
            return body
        }
    }

    /// Calls a closure once, in the next pass of one of the modes, which calls all requests that wait. Any thread may
    /// call it, and wakes the loop. Like a ``Source0``, a request keeps its modes from being empty, and is handled.
    /// The corresponding method is NSRunLoop's `performSelector:target:argument:order:modes:`.
    ///
    /// Requests of lower order are called first; requests of equal order in the order they were made. Name at least one
    /// mode. The owner is not retained: after its end the closure is not called. See ``cancelPerformRequests(of:)``.
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, and `forked`: the closure is not called, as
    ///   are those of requests that still wait when the thread ends.
    @discardableResult
    public func perform(
        order: Int, inModes modes: [Mode] = [.default], owner: (any AnyObject & Sendable)? = nil,
        _ body: @escaping @Sendable () -> Void
    ) throws(RunLoopError) -> PerformRequest {
        contract(!modes.isEmpty, Self.noMode)
        let request = PerformRequest(owner: owner, in: ownedRequests, body)
        let reference = LoopReference(request)
        let source = Source0(order: order, isRequest: true) { reference.call.perform() }
        request.isCalled(by: source)
        source.signal()
        try give(request, modes) { mode throws(RunLoopError) in try add(source, forMode: mode) }
        wakeUpFromOutside()
        return request
    }

    /// Calls a closure once, after a delay, in one of the modes; with a delay of zero or less, in the next pass. Any
    /// thread may call it. Modes and owner are as in ``perform(order:inModes:owner:_:)``; a ``Timer`` does the rest.
    /// The corresponding method is NSObject's `performSelector:withObject:afterDelay:inModes:`.
    /// - Throws: As ``perform(order:inModes:owner:_:)``.
    @discardableResult
    public func perform(
        after delay: Duration, inModes modes: [Mode] = [.default], owner: (any AnyObject & Sendable)? = nil,
        _ body: @escaping @Sendable () -> Void
    ) throws(RunLoopError) -> PerformRequest {
        contract(!modes.isEmpty, Self.noMode)
        let request = PerformRequest(owner: owner, in: ownedRequests, body)
        let reference = LoopReference(request)
        let timer = Timer(after: delay, label: "perform(after:)") { _ in reference.call.perform() }
        request.isCalled(by: timer)
        try give(request, modes) { mode throws(RunLoopError) in try add(timer, forMode: mode) }
        return request
    }

    private func give(
        _ request: PerformRequest, _ modes: [Mode], _ add: (Mode) throws(RunLoopError) -> Void
    ) throws(RunLoopError) {
        do throws(RunLoopError) {
            for mode in modes { try add(mode) }
        } catch {
            // The loop may have called the closure in one of the modes, and have ended then.
            if request.takeBody() != nil { throw error }
        }
    }

    /// Cancels all requests of this loop that are for an object. Any thread may call it. The corresponding methods are
    /// NSObject's `cancelPreviousPerformRequestsWithTarget:` and NSRunLoop's `cancelPerformSelectorsWithTarget:`.
    public func cancelPerformRequests(of owner: any AnyObject & Sendable) {
        for request in ownedRequests.all(of: owner) { request.cancel() }
    }
}

private protocol RequestItem: AnyObject, Sendable { func invalidate() }

extension ThreadRunLoop.Source0: RequestItem {}
extension ThreadRunLoop.Timer: RequestItem {}
extension ThreadRunLoop.PerformRequest: Cancellable {}

final class OwnedRequests: Sendable {
    private let requests = Mutex<[ObjectIdentifier: ThreadRunLoop.PerformRequest]>([:])

    func insert(_ request: ThreadRunLoop.PerformRequest) {
        requests.withLock { $0[ObjectIdentifier(request)] = request }
    }

    func remove(_ request: ThreadRunLoop.PerformRequest) { requests.withLock { $0[ObjectIdentifier(request)] = nil } }

    func all(of owner: any AnyObject & Sendable) -> [ThreadRunLoop.PerformRequest] {
        requests.withLock { Array($0.values) }.filter { $0.owner === owner }
    }
}
