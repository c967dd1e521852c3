import Synchronization

/// The loops that have a source. Unowned: a loop retains its items, and leaves them when it ends. With a weak reference
/// each retain of the loop would cost ten times as much.
final class LoopMembership: Sendable {
    private struct Member {
        unowned let loop: ThreadRunLoop
        let identity: ObjectIdentifier
    }

    private let members = Mutex<[Member]>([])

    var loops: [ThreadRunLoop] { members.withLock { $0.map(\.loop) } }

    /// Whether this loop alone has the source.
    func isOnly(_ loop: ThreadRunLoop) -> Bool {
        members.withLock { $0.count == 1 && $0[0].identity == ObjectIdentifier(loop) }
    }

    func join(_ loop: ThreadRunLoop) {
        members.withLock { members in
            if members.contains(where: { $0.loop === loop }) { return }
            members.append(Member(loop: loop, identity: ObjectIdentifier(loop)))
        }
    }

    func leave(_ loop: ThreadRunLoop) {
        members.withLock { $0.removeAll { $0.loop === loop } }
    }
}
