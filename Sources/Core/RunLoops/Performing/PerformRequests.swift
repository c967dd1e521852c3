extension ThreadRunLoop {
    /// Calls a closure once, in the next pass of one of the modes, which calls all requests that wait. Any thread may
    /// call it, and wakes the loop. Like a ``Source0``, a request keeps its modes from being empty, and is handled.
    /// The corresponding method is NSRunLoop's `performSelector:target:argument:order:modes:`.
    ///
    /// Requests of lower order are called first; requests of equal order in the order they were made. Name at least one
    /// mode. The owner is not retained, and after its end the closure is not called. See ``cancelPerformRequests(of:)``.
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, and `forked`. Then the closure is not
    ///   called. Nor are the closures of requests that still wait when the thread ends.
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
        wakeFromOutside()
        return request
    }

    /// Calls a closure once, after a delay, in one of the modes; with a delay of zero or less, in the next pass. Any
    /// thread may call it. Modes and owner are as in ``perform(order:inModes:owner:_:)``; a ``Timer`` calls the closure.
    /// The corresponding method is NSObject's `performSelector:withObject:afterDelay:inModes:`.
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, and `forked`. Then the closure is not
    ///   called. Nor are the closures of requests that still wait when the thread ends.
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

extension RunLoopPerformRequest: Cancellable {}
