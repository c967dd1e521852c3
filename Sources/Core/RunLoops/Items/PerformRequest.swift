import Synchronization

/// A closure that a loop calls once, and that can be cancelled. The request need not be retained.
public final class RunLoopPerformRequest: Sendable {
    private struct State {
        var body: (@Sendable () -> Void)?
        /// The source or timer that makes the loop perform the request; nil for a task that waits for an idle loop.
        weak var item: (any ModeMember)?
    }

    private let state: Mutex<State>
    weak let owner: (any AnyObject & Sendable)?
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

    /// Cancels the request. A closure that has not begun is not called. Any thread may call it, any number of
    /// times. The corresponding method is NSRunLoop's `cancelPerformSelector:target:argument:`.
    public func cancel() { _ = takeBody() }

    func perform() {
        let isWanted = isWanted
        if let body = takeBody(), isWanted { body() }
    }

    func isCalled(by item: some ModeMember) {
        let isOver = state.withLock { state in
            state.item = item
            return state.body == nil
        }
        // Another thread has cancelled the request before the item was set, and so could not invalidate the item.
        if isOver { item.invalidate() }
    }

    /// Whether the owner, if there is one, is still there.
    private var isWanted: Bool { noted == nil || owner != nil }

    /// Ends the request. The closure is released after the lock, because its captures may call back into the request.
    func takeBody() -> (@Sendable () -> Void)? {
        let (body, item) = state.withLock { ($0.body.take(), $0.item) }
        guard let body else { return nil }
        noted?.remove(self)
        item?.invalidate()
        return body
    }
}

/// The requests of a loop that have an owner.
final class OwnedRequests: Sendable {
    private let requests = Mutex<[ObjectIdentifier: RunLoopPerformRequest]>([:])

    func insert(_ request: RunLoopPerformRequest) {
        requests.withLock { $0[ObjectIdentifier(request)] = request }
    }

    func remove(_ request: RunLoopPerformRequest) { requests.withLock { $0[ObjectIdentifier(request)] = nil } }

    func all(of owner: any AnyObject & Sendable) -> [RunLoopPerformRequest] {
        requests.withLock { Array($0.values) }.filter { $0.owner === owner }
    }
}
