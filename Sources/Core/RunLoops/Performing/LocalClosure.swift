// Handlers are `@Sendable`, since any thread may add an item. These functions make one of another closure.

extension ThreadRunLoop {
    /// Makes a handler for the calling thread's loop of any closure, which may capture what is not `Sendable`.
    ///
    ///     var ticks = 0
    ///     let source = ThreadRunLoop.Source0(perform: ThreadRunLoop.local { ticks += 1 })
    ///     try ThreadRunLoop.current.add(source)
    ///
    /// The closure is called and released on this thread, even if the item is released elsewhere; a call on another
    /// thread stops the process. The compiler does not see that: do not send the captures to another thread or task.
    @available(*, noasync, message: "a task may go on on another thread; add an item with a @Sendable handler")
    public static func local<each Argument: Sendable, Value: Sendable>(
        _ body: @escaping (repeat each Argument) -> Value
    ) -> @Sendable (repeat each Argument) -> Value {
        let closure = LocalClosure { (arguments: (repeat each Argument)) in body(repeat each arguments) }
        return { (arguments: repeat each Argument) in closure.checked((repeat each arguments)) }
    }

    /// Makes a handler for the main loop of a closure of the main actor. Any thread may do so, and add the item. A call
    /// of the handler on another thread than the main thread stops the process.
    ///
    ///     var title = "before"
    ///     try ThreadRunLoop.main.perform(ThreadRunLoop.mainActor { title = "after" })
    public static func mainActor<each Argument: Sendable, Value: Sendable>(
        _ body: @escaping @MainActor (repeat each Argument) -> Value
    ) -> @Sendable (repeat each Argument) -> Value {
        { (arguments: repeat each Argument) in
            contract(main.isCurrent, "a handler made by ThreadRunLoop.mainActor was called off the main thread")
            return MainActor.assumeIsolated { body(repeat each arguments) }
        }
    }

    /// Queues a closure of the main actor for the main loop's next pass in one of the modes. Any thread may call it.
    /// The corresponding method is `performSelectorOnMainThread:withObject:waitUntilDone:modes:`, without waiting.
    /// - Throws: ``RunLoopError/loopEnded`` when the main thread has ended, and `forked`: the closure is not called.
    public static func performOnMain(
        inModes modes: [Mode] = [.common], _ body: @escaping @MainActor () -> Void
    ) throws(RunLoopError) { try main.perform(inModes: modes, mainActor(body)) }

    private static let notItsThread =
        "only the loop's own thread can add a closure that is not @Sendable: elsewhere, add a Timer or an Observer with "
        + "a @Sendable handler"

    /// Makes a timer with any closure and adds it to this loop, which must be the calling thread's.
    /// The corresponding method is NSTimer's `scheduledTimerWithTimeInterval:repeats:block:`.
    /// - Returns: The timer. It is in no loop in the last callouts of a thread that ends, and never fires then.
    @available(*, noasync, message: "a task may go on on another thread; add an item with a @Sendable handler")
    @discardableResult
    public func addTimer(
        after delay: Duration, repeats: Bool = false, forMode mode: Mode = .default, label: String? = nil,
        handler: @escaping (Timer) -> Void
    ) -> Timer {
        contract(isCurrent, Self.notItsThread)
        return added(Timer(after: delay, repeats: repeats, label: label, handler: Self.local(handler)), mode)
    }

    /// Makes a timer that repeats, with any closure, and adds it to this loop, which must be the calling thread's.
    /// - Parameters:
    ///   - delay: The time to the first firing.
    ///   - interval: The time from one firing to the next.
    ///   - mode: The mode of the loop.
    ///   - label: The item's name in dumps and stall reports.
    ///   - handler: Called on the loop's thread.
    /// - Returns: The timer. It is in no loop in the last callouts of a thread that ends, and never fires then.
    @available(*, noasync, message: "a task may go on on another thread; add an item with a @Sendable handler")
    @discardableResult
    public func addTimer(
        after delay: Duration = .zero, every interval: Duration, forMode mode: Mode = .default, label: String? = nil,
        handler: @escaping (Timer) -> Void
    ) -> Timer {
        contract(isCurrent, Self.notItsThread)
        return added(Timer(at: .now + delay, every: interval, label: label, handler: Self.local(handler)), mode)
    }

    private func added(_ timer: Timer, _ mode: Mode) -> Timer {
        _ = try? add(timer, forMode: mode)
        return timer
    }

    /// Makes an observer with any closure and adds it to this loop, which must be the calling thread's.
    /// The corresponding CF function is `CFRunLoopObserverCreateWithHandler`, followed by `CFRunLoopAddObserver`.
    /// - Returns: The observer. It is in no loop in the last callouts of a thread that ends, and is never called then.
    @available(*, noasync, message: "a task may go on on another thread; add an item with a @Sendable handler")
    @discardableResult
    public func addObserver(
        _ activities: Activity, repeats: Bool = true, order: Int = 0, forMode mode: Mode = .default,
        label: String? = nil, handler: @escaping (Observer, Activity) -> Void
    ) -> Observer {
        contract(isCurrent, Self.notItsThread)
        let observer = Observer(activities, repeats: repeats, order: order, label: label, handler: Self.local(handler))
        _ = try? add(observer, forMode: mode)
        return observer
    }
}

private final class LocalClosure<Function>: Sendable {
    private let owned: Owned<Function>
    private let loop = ThreadRunLoop.current

    init(_ function: Function) { owned = Owned(function) }

    var checked: Function {
        guard loop.isCurrent, let function = owned.function else {
            contractBroken("a handler made by ThreadRunLoop.local was called on another thread than it was made on")
        }
        return function
    }

    deinit {
        guard !loop.isCurrent else { return }
        // In the loop's next pass, in any mode, or at the thread's end; after that no other thread uses the closure.
        try? loop.perform(inModes: loop.allModes + [.common]) { [owned] in owned.function = nil }
    }
}

/// A closure that is released on its own thread, wherever the last reference is released.
private final class Owned<Function>: @unchecked Sendable {
    // Sound: used on that thread only, which `LocalClosure` checks.
    var function: Function?

    init(_ function: Function) { self.function = function }
}
