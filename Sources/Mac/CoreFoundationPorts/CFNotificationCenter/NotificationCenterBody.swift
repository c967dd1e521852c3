import CCoreFoundationPorts
@preconcurrency import CoreFoundation
import RunLoopLocks

/// The content of a CFNotificationCenter.
final class NotificationCenterBody: ObjectBody, @unchecked Sendable {
    // Sound: what changes is behind the lock. The callbacks are the program's, which knows their threads.
    enum Kind: UInt8 {
        case local, distributed, darwin
    }

    private struct State {
        var observers = Observers()
        var isSuspended = false
        /// Notifications that came while the centre was suspended.
        var held: [(observation: Observation, notification: PostedNotification)] = []
    }

    let kind: Kind
    nonisolated(unsafe) weak var instance: CFNotificationCenter?
    private let state = Lock(State())
    /// The way to and from other processes.
    private lazy var exchange = NotificationExchange(kind) { [unowned self] in deliver($0) }

    /// More notifications of an observer that wants all of them are dropped while the centre is suspended.
    private static let mostHeld = 1000

    static let objects = ObjectClass<NotificationCenterBody>("CFNotificationCenter")

    // There is one of each for ever.
    nonisolated(unsafe) static let local = make(.local)
    nonisolated(unsafe) static let distributed = make(.distributed)
    nonisolated(unsafe) static let darwin = make(.darwin)

    private static func make(_ kind: Kind) -> CFNotificationCenter {
        let body = NotificationCenterBody(kind)
        guard let made = objects.makeInstance(nil, body) else { preconditionFailure("no memory is left") }
        if kind != .local { _ = body.exchange }
        return made
    }

    private init(_ kind: Kind) { self.kind = kind }

    private func observed(_ object: UnsafeRawPointer?) -> ObservedObject? {
        switch kind {
        case .local: object.map { .address($0) }
        case .distributed: PostedNotification.text(object).map { .text($0) }
        case .darwin: nil
        }
    }

    func add(
        _ observer: UnsafeRawPointer?, _ callBack: CFNotificationCallback?, _ name: CFString?,
        _ object: UnsafeRawPointer?,
        _ behavior: CFNotificationSuspensionBehavior
    ) {
        // Darwin's centre has no notifications of any name.
        guard kind != .darwin || name != nil else { return }
        let added = Observation(
            observer: observer, callBack: callBack, name: name.map { String($0) }, object: observed(object),
            behavior: behavior)
        changeObservers { $0.add(added) }
    }

    func remove(_ observer: UnsafeRawPointer?, _ name: CFString?, _ object: UnsafeRawPointer?) {
        let pattern = Observation(
            observer: observer, callBack: nil, name: name.map { String($0) }, object: observed(object), behavior: .drop)
        changeObservers { $0.remove(pattern) }
    }

    private func changeObservers(_ change: @Sendable (inout Observers) -> Void) {
        func changed() -> Set<String?> {
            state.withLock { state in
                change(&state.observers)
                return state.observers.names
            }
        }
        if kind == .local { _ = changed() } else { exchange.observe(changed) }
    }

    func post(_ notification: PostedNotification) {
        switch kind {
        case .local: deliver(notification)
        case .distributed: exchange.post(notification)
        // Darwin's notifications have names alone.
        case .darwin: exchange.post(PostedNotification(notification.name, nil, nil, isImmediate: true))
        }
    }

    /// Calls the observers on this thread.
    private func deliver(_ notification: PostedNotification) {
        let (name, object) = (String(notification.name), observed(notification.object))
        for observation in state.withLock({ $0.observers.matching(name, object) }) {
            if hold(notification, for: observation) { continue }
            call(observation, notification)
        }
    }

    private func call(_ observation: Observation, _ notification: PostedNotification) {
        // A callback of this notification may have removed it.
        guard state.withLock({ $0.observers.contains(observation) }) else { return }
        observation.callBack?(
            instance, observation.observer.map { UnsafeMutableRawPointer(mutating: $0) }, notification.name,
            notification.object, notification.userInfo)
    }

    // MARK: Suspension

    var isSuspended: Bool { state.withLock { $0.isSuspended } }

    /// Whether the observer gets the notification later, or not at all, because the centre is suspended.
    private func hold(_ notification: PostedNotification, for observation: Observation) -> Bool {
        let isImmediate = notification.isImmediate || observation.behavior == .deliverImmediately
        let isHeld = state.withLock { state in
            guard state.isSuspended, !isImmediate else { return false }
            switch observation.behavior {
            case .coalesce:
                state.held.removeAll {
                    $0.observation.number == observation.number && CFEqual($0.notification.name, notification.name)
                        && $0.notification.objectText == notification.objectText
                }
                state.held.append((observation, notification))
            case .hold:
                if state.held.count < Self.mostHeld { state.held.append((observation, notification)) }
            default: break
            }
            return true
        }
        // A notification that comes at once comes after those that were held.
        if !isHeld, isImmediate { deliverHeld() }
        return isHeld
    }

    private func deliverHeld() {
        let held = state.withLock { state in
            defer { state.held = [] }
            return state.held
        }
        for (observation, notification) in held { call(observation, notification) }
    }

    /// Has the main loop deliver what was held, once the centre is no longer suspended.
    func suspend(_ isSuspended: Bool) {
        guard kind == .distributed else { return }
        state.withLock { $0.isSuspended = isSuspended }
        guard !isSuspended else { return }
        CFRunLoopPerformBlock(CFRunLoopGetMain(), kCFRunLoopCommonModes) { [self] in
            if !self.isSuspended { deliverHeld() }
        }
        CFRunLoopWakeUp(CFRunLoopGetMain())
    }

    /// A centre lives for ever.
    func invalidate(_ instance: CFNotificationCenter) {}

    func description(of instance: CFNotificationCenter) -> String {
        "<CFNotificationCenter \(Unmanaged.passUnretained(instance).toOpaque())>{kind = \(kind)}"
    }
}

extension CFNotificationCenter {
    var body: NotificationCenterBody { NotificationCenterBody.objects.body(of: self) }
}
