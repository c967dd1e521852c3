import RunLoopLocks
import RunLoops

extension MachPort {
    /// Handles a port's messages, as an alternative to a closure. The corresponding protocol is NSPortDelegate.
    ///
    /// Any thread may call a `Sendable` delegate: see ``MachPort/delegate``. A delegate that belongs to one thread is set
    /// with ``MachPort/setLocalDelegate(_:)``, one of the main actor with ``MachPort/setMainActorDelegate(_:)``.
    public protocol Delegate: AnyObject {
        /// Handles a message, on the thread of a loop that the port is scheduled in, or on its queue.
        /// The corresponding method is NSPortDelegate's `handlePortMessage:`.
        func handle(_ message: Message, of port: MachPort)
    }

    /// Handles messages in place of a handler, from the next one on. The port does not keep the delegate. Without a
    /// delegate, messages wait. Any thread may set the delegate. The corresponding property is NSPort's `delegate`.
    public var delegate: (any Delegate & Sendable)? {
        get { sharedDelegate.withLockUnlessForked { $0.delegate } ?? nil }
        set {
            // Without a delegate to remove, the handler stays.
            guard newValue != nil || delegate != nil else { return }
            guard let newValue else { return setHandler(nil) }
            guard !Fork.isChild else { return }
            sharedDelegate.withLock { $0.delegate = newValue }
            setDelegate { [weak self] in self?.delegate }
        }
    }

    /// Sets a delegate that belongs to the calling thread, and need not be `Sendable`. The port does not keep the delegate.
    /// Schedule the port in the thread's loop alone, because a message that another loop or a queue handles stops the
    /// process. ``setHandler(_:)`` removes the delegate.
    @available(*, noasync, message: "a task may go on on another thread; set a delegate that is Sendable")
    public func setLocalDelegate(_ delegate: any Delegate) { setDelegate(LocalDelegate(delegate, of: .current)) }

    /// Sets a delegate of the main actor, which handles messages on the main loop. The port does not keep the delegate.
    /// Schedule the port in the main loop alone, because a message that another loop or a queue handles stops the process.
    ///
    ///     @MainActor final class Model: @MainActor MachPort.Delegate {
    ///         func handle(_ message: MachPort.Message, of port: MachPort) { print("got", message.id) }
    ///     }
    ///
    ///     let (model, port) = (Model(), try MachPort())
    ///     port.setMainActorDelegate(model)
    ///     try port.schedule(in: .main)
    @MainActor public func setMainActorDelegate(_ delegate: any Delegate) {
        setDelegate(LocalDelegate(delegate, of: .main))
    }

    /// Asks `current` for the handler of each message. While there is none, messages wait.
    package func setHandler(ofDelegate current: @escaping @Sendable () -> Handler?) {
        guard !Fork.isChild else { return }
        sharedDelegate.withLock { $0.delegate = nil }
        receiver.setHandlers(.init(ofDelegate: { current().map(Self.messageHandler) }))
    }

    private func setDelegate(_ local: LocalDelegate) {
        guard !Fork.isChild else { return }
        sharedDelegate.withLock { $0.delegate = nil }
        setDelegate { local.checked }
    }

    private func setDelegate(_ current: @escaping @Sendable () -> (any Delegate)?) {
        receiver.setHandlers(
            .init(ofDelegate: { [weak self] in
                guard let self, let delegate = current() else { return nil }
                let held = HeldDelegate(delegate: delegate)
                return Self.messageHandler { message in held.delegate.handle(message, of: self) }
            }))
    }
}

/// A delegate that any thread may use.
struct SharedDelegate { weak var delegate: (any MachPort.Delegate & Sendable)? }

/// The delegate of a turn.
private struct HeldDelegate: @unchecked Sendable {
    // Sound: Sendable, or held by its own thread only.
    let delegate: any MachPort.Delegate
}

/// A delegate that only its own thread may use, which is checked.
private final class LocalDelegate: @unchecked Sendable {
    // Sound: read on the delegate's thread only.
    private weak var delegate: (any MachPort.Delegate)?
    private let loop: ThreadRunLoop

    init(_ delegate: any MachPort.Delegate, of loop: ThreadRunLoop) {
        self.delegate = delegate
        self.loop = loop
    }

    var checked: (any MachPort.Delegate)? {
        contract(
            loop.isCurrent,
            "a message for a delegate that belongs to one thread came on another: schedule its port in the loop of the "
                + "delegate's thread alone, and set no queue")
        return delegate
    }
}
