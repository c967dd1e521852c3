import Synchronization

/// What a pass has to know of a mode before it takes the loop's lock: most often, that there is nothing to do.
final class ModeFlags: Sendable {
    /// Whether the mode is one of the common ones.
    let isCommon: Atomic<Bool>
    private let own: ModeSet
    private let ownAndCommon: ModeSet
    /// The points that any of the mode's observers is told of.
    let activities = Atomic<UInt32>(0)
    let signaled = SignaledSources()

    /// - Parameter number: The mode's in the loop's ``BlockQueue``.
    init(isCommon: Bool, number: Int) {
        self.isCommon = Atomic(isCommon)
        own = [number]
        var both = ModeSet.common
        both.insert(number)
        ownAndCommon = both
    }

    /// What the blocks that a pass performs are for.
    var blockModes: ModeSet { isCommon.load(ordering: .acquiring) ? ownAndCommon : own }
}

/// The Source0s of a mode that are signalled, so that a pass need not ask each of them.
final class SignaledSources: Sendable {
    private let mayHaveSome = Atomic(false)
    private let sources = Mutex<[ObjectIdentifier: ThreadRunLoop.Source0]>([:])

    var isPresent: Bool { mayHaveSome.load(ordering: .acquiring) }

    func insert(_ source: ThreadRunLoop.Source0) {
        sources.withLock { sources in
            sources[ObjectIdentifier(source)] = source
            mayHaveSome.store(true, ordering: .releasing)
        }
    }

    func remove(_ source: ThreadRunLoop.Source0) {
        // It goes after the lock; its caller has it, too.
        _ = sources.withLock { $0.removeValue(forKey: ObjectIdentifier(source)) }
    }

    /// Those that still are, in no order. They stay, for a run inside the first one's callout.
    func current() -> [ThreadRunLoop.Source0] {
        sources.withLock { sources in
            // The mode retains them: none is let go of here.
            sources = sources.filter { $0.value.isSignaled }
            mayHaveSome.store(!sources.isEmpty, ordering: .releasing)
            return Array(sources.values)
        }
    }
}
