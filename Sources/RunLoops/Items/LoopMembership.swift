import Synchronization

/// The loops that have a source, in any number of modes. Weak: a loop retains its items, not the other way round.
final class LoopMembership: Sendable {
    private struct Member {
        weak var loop: ThreadRunLoop?
        let identity: ObjectIdentifier
        var modes: Int
    }

    private let members = Mutex<[Member]>([])

    var loops: [ThreadRunLoop] {
        members.withLock { members in
            // By index: an element taken out would be one more weak reference for a moment.
            members.indices.compactMap { members[$0].loop }
        }
    }

    /// Whether this loop has the source, and no other loop. Cheap: no weak reference is followed, and a loop that ends
    /// has left.
    func isOnly(_ loop: ThreadRunLoop) -> Bool {
        members.withLock { $0.count == 1 && $0[0].identity == ObjectIdentifier(loop) }
    }

    func join(_ loop: ThreadRunLoop) {
        members.withLock { members in
            if let index = members.firstIndex(where: { $0.loop === loop }) {
                members[index].modes += 1
            } else {
                members.append(Member(loop: loop, identity: ObjectIdentifier(loop), modes: 1))
            }
        }
    }

    func leave(_ loop: ThreadRunLoop) {
        members.withLock { members in
            guard let index = members.firstIndex(where: { $0.loop === loop }) else { return }
            members[index].modes -= 1
            if members[index].modes == 0 { members.remove(at: index) }
        }
    }
}
