import Synchronization

/// The loops that have a source. Weak: a loop retains its items, not the other way round.
final class LoopMembership: Sendable {
    private struct Member {
        weak var loop: ThreadRunLoop?
        let identity: ObjectIdentifier
    }

    private let members = Mutex<[Member]>([])

    var loops: [ThreadRunLoop] {
        members.withLock { members in
            // By index: an element taken out would be one more weak reference for a moment.
            members.indices.compactMap { members[$0].loop }
        }
    }

    /// Whether this loop alone has the source. Cheap: no weak reference is followed, and a loop that ends has left.
    func isOnly(_ loop: ThreadRunLoop) -> Bool {
        members.withLock { $0.count == 1 && $0[0].identity == ObjectIdentifier(loop) }
    }

    func join(_ loop: ThreadRunLoop) {
        members.withLock { members in
            if members.contains(where: { $0.identity == ObjectIdentifier(loop) }) { return }
            members.append(Member(loop: loop, identity: ObjectIdentifier(loop)))
        }
    }

    func leave(_ loop: ThreadRunLoop) {
        members.withLock { $0.removeAll { $0.identity == ObjectIdentifier(loop) } }
    }
}
