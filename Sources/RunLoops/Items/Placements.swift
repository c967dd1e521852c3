import Synchronization

/// The loops that a source is in. Weak: a loop retains its items, not the other way round.
final class Placements: Sendable {
    private struct Placement {
        weak var loop: ThreadRunLoop?
        let identity: ObjectIdentifier
        var modes: Int
    }

    private let placements = Mutex<[Placement]>([])

    var loops: [ThreadRunLoop] {
        placements.withLock { placements in
            var loops: [ThreadRunLoop] = []
            // By index: an element taken out would be one more weak reference for a moment.
            for index in placements.indices {
                if let loop = placements[index].loop { loops.append(loop) }
            }
            return loops
        }
    }

    /// Whether it is in this loop, and no other. Cheap: no weak reference is followed, and a loop that ends has left.
    func isOnly(_ loop: ThreadRunLoop) -> Bool {
        placements.withLock { $0.count == 1 && $0[0].identity == ObjectIdentifier(loop) }
    }

    func joined(_ loop: ThreadRunLoop) {
        placements.withLock { placements in
            if let index = placements.firstIndex(where: { $0.loop === loop }) {
                placements[index].modes += 1
            } else {
                placements.append(Placement(loop: loop, identity: ObjectIdentifier(loop), modes: 1))
            }
        }
    }

    func left(_ loop: ThreadRunLoop) {
        placements.withLock { placements in
            guard let index = placements.firstIndex(where: { $0.loop === loop }) else { return }
            placements[index].modes -= 1
            if placements[index].modes == 0 { placements.remove(at: index) }
        }
    }
}
