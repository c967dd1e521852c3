import Synchronization

/// The loops that have an item. Unowned: a loop retains its items, and leaves them when it ends. With a weak reference
/// each retain of the loop would cost ten times as much.
final class LoopMembership: Sendable {
    private struct Member {
        unowned let loop: ThreadRunLoop
        let identity: ObjectIdentifier
    }

    private let members = Mutex<[Member]>([])

    var loops: [ThreadRunLoop] { members.withLock { $0.map(\.loop) } }

    /// The loop of a timer or an observer.
    var owner: ThreadRunLoop? { members.withLock { $0.first?.loop } }

    /// Whether this loop alone has the item.
    func isOnly(_ loop: ThreadRunLoop) -> Bool {
        members.withLock { $0.count == 1 && $0[0].identity == ObjectIdentifier(loop) }
    }

    /// False when the item may be in one loop only, and is another loop's.
    @discardableResult
    func join(_ loop: ThreadRunLoop, alone: Bool = false) -> Bool {
        members.withLock { members in
            if members.contains(where: { $0.loop === loop }) { return true }
            if alone, !members.isEmpty { return false }
            members.append(Member(loop: loop, identity: ObjectIdentifier(loop)))
            return true
        }
    }

    func leave(_ loop: ThreadRunLoop) {
        members.withLock { $0.removeAll { $0.loop === loop } }
    }
}
