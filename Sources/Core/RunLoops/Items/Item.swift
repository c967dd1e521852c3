import CRunLoopShims

/// A member of a mode: a source, a timer or an observer.
enum Item {
    case source0(RunLoopSource0)
    case source1(RunLoopSource1)
    case timer(RunLoopTimer)
    case observer(RunLoopObserver)

    private var member: any ModeMember {
        switch self {
        case .source0(let source): source
        case .source1(let source): source
        case .timer(let timer): timer
        case .observer(let observer): observer
        }
    }

    var id: ObjectIdentifier { ObjectIdentifier(member) }
    var isValid: Bool { member.isValid }
    var label: String? { member.label }

    /// Whether a loop may take the item. A timer or an observer belongs to one loop at a time.
    func mayJoin(_ loop: LoopThread) -> Bool {
        switch self {
        case .source0, .source1: isValid
        case .timer, .observer: isValid && (member.membership.isEmpty || member.membership.isOnly(loop))
        }
    }

    /// Called when no mode of the loop has the item any more.
    func leave(_ loop: any ItemLoop) { member.membership.leave(loop) }

    /// Removes the item from its loops for good; false when it was invalid. `takeHandler` takes the item's lock.
    @discardableResult
    func invalidate<Handler>(_ takeHandler: () -> Handler?) -> Bool {
        // Released after the lock, because the captures of the handler may call back into the item.
        guard !crl_is_forked(), let handler = takeHandler() else { return false }
        for loop in member.membership.loops { loop.removeEverywhere(self) }
        return withExtendedLifetime(handler) { true }
    }

    var name: String {
        let kind =
            switch self {
            case .source0: "source"
            case .source1(let source): "source of descriptor \(source.descriptor)"
            case .timer: "timer"
            case .observer: "observer"
            }
        return member.label.map { "\(kind) \"\($0)\"" } ?? kind
    }
}

/// The common part of sources, timers and observers.
protocol ModeMember: AnyObject, Sendable {
    var label: String? { get }
    var isValid: Bool { get }
    var membership: LoopMembership { get }
    func invalidate()
}

extension RunLoopSource0: ModeMember {}
extension RunLoopSource1: ModeMember {}
extension RunLoopTimer: ModeMember {}
extension RunLoopObserver: ModeMember {}
