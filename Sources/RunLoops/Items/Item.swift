import CRunLoopShims

/// A source, a timer or an observer: the things that a mode holds.
enum Item {
    case source0(ThreadRunLoop.Source0)
    case source1(ThreadRunLoop.Source1)
    case timer(ThreadRunLoop.Timer)
    case observer(ThreadRunLoop.Observer)

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

    /// Whether a loop may take the item: a timer or an observer is one loop's at a time.
    func mayJoin(_ loop: ThreadRunLoop) -> Bool {
        switch self {
        case .source0, .source1: isValid
        case .timer, .observer: isValid && (member.membership.owner ?? loop) === loop
        }
    }

    /// Called when no mode of the loop has the item any more.
    func leave(_ loop: ThreadRunLoop) { member.membership.leave(loop) }

    /// Removes the item from its loops for good; false when it was invalid. `takeHandler` takes the item's lock.
    @discardableResult
    func invalidate<Handler>(_ takeHandler: () -> Handler?) -> Bool {
        // Released after the lock: what the handler has captured may call back into the item.
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

private protocol ModeMember: AnyObject, Sendable {
    var label: String? { get }
    var isValid: Bool { get }
    var membership: LoopMembership { get }
}

extension ThreadRunLoop.Source0: ModeMember {}
extension ThreadRunLoop.Source1: ModeMember {}
extension ThreadRunLoop.Timer: ModeMember {}
extension ThreadRunLoop.Observer: ModeMember {}
