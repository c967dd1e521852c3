import CRunLoopShims

/// A source, a timer or an observer: the things that a mode holds.
enum Item {
    case source0(ThreadRunLoop.Source0)
    case source1(ThreadRunLoop.Source1)
    case timer(ThreadRunLoop.Timer)
    case observer(ThreadRunLoop.Observer)

    var id: ObjectIdentifier {
        switch self {
        case .source0(let source): ObjectIdentifier(source)
        case .source1(let source): ObjectIdentifier(source)
        case .timer(let timer): ObjectIdentifier(timer)
        case .observer(let observer): ObjectIdentifier(observer)
        }
    }

    var isValid: Bool {
        switch self {
        case .source0(let source): source.isValid
        case .source1(let source): source.isValid
        case .timer(let timer): timer.isValid
        case .observer(let observer): observer.isValid
        }
    }

    /// Whether a loop may take the item: a timer or an observer is one loop's at a time.
    func mayJoin(_ loop: ThreadRunLoop) -> Bool { isValid && (owner == nil || owner === loop) }

    private var owner: ThreadRunLoop? {
        switch self {
        case .source0, .source1: nil
        case .timer(let timer): timer.owner
        case .observer(let observer): observer.owner
        }
    }

    /// Called when no mode of the loop has the item any more.
    func leave(_ loop: ThreadRunLoop) {
        switch self {
        case .source0(let source): source.membership.leave(loop)
        case .source1(let source): source.membership.leave(loop)
        case .timer(let timer): timer.leave()
        case .observer(let observer): observer.leave()
        }
    }

    private var loops: [ThreadRunLoop] {
        switch self {
        case .source0(let source): source.membership.loops
        case .source1(let source): source.membership.loops
        case .timer, .observer: owner.map { [$0] } ?? []
        }
    }

    /// Removes the item from its loops for good; false when the item was invalid already. `takeHandler` takes the
    /// handler out under the item's lock.
    @discardableResult
    func invalidate<Handler>(_ takeHandler: () -> Handler?) -> Bool {
        // Released after the lock: what the handler has captured may call back into the item.
        guard !crl_is_forked(), let handler = takeHandler() else { return false }
        for loop in loops { loop.removeEverywhere(self) }
        return withExtendedLifetime(handler) { true }
    }

    /// The item's name in a dump or a report.
    var name: String {
        let (kind, label): (String, String?) =
            switch self {
            case .source0(let source): ("source", source.label)
            case .source1(let source): ("source of descriptor \(source.descriptor)", source.label)
            case .timer(let timer): ("timer", timer.label)
            case .observer(let observer): ("observer", observer.label)
            }
        return label.map { "\(kind) \"\($0)\"" } ?? kind
    }
}
