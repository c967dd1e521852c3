import Synchronization

/// The fields of a mode that a pass reads without the loop's lock. Mostly they say that there is nothing to do.
final class ModeFlags: Sendable {
    private let activities = Atomic<UInt32>(0)
    let isCommon: Atomic<Bool>
    private let own: ModeSet
    private let ownAndCommon: ModeSet
    private let hasSignaled = Atomic(false)
    /// The signalled sources, so that a pass need not check every source.
    private let signaled = Mutex<[ObjectIdentifier: RunLoopSource0]>([:])

    /// - Parameter number: The mode's number in the loop's ``BlockQueue``.
    init(isCommon: Bool, number: Int) {
        self.isCommon = Atomic(isCommon)
        own = ModeSet(number)
        var both = ModeSet.common
        both.insert(number)
        ownAndCommon = both
    }

    @inline(__always)
    func tells(_ activity: RunLoopActivity) -> Bool {
        activities.load(ordering: .acquiring) & activity.rawValue != 0
    }

    func observersChanged(_ observers: [RunLoopObserver]) {
        activities.store(observers.reduce(0) { $0 | $1.activities.rawValue }, ordering: .releasing)
    }

    var blockModes: ModeSet { isCommon.load(ordering: .acquiring) ? ownAndCommon : own }

    var hasSignaledSources: Bool { hasSignaled.load(ordering: .acquiring) }

    func list(_ source: RunLoopSource0) {
        signaled.withLock { signaled in
            signaled[ObjectIdentifier(source)] = source
            hasSignaled.store(true, ordering: .releasing)
        }
    }

    func unlist(_ source: RunLoopSource0) {
        // Not the last reference, because the caller has one.
        _ = signaled.withLock { $0.removeValue(forKey: ObjectIdentifier(source)) }
    }

    /// The sources that are still signalled, in order. They stay listed for a run inside a source's callout.
    func signaledSources() -> [RunLoopSource0] {
        let sources = signaled.withLock { signaled in
            // The mode retains the sources, so none is released under the lock.
            signaled = signaled.filter { $0.value.isSignaled }
            hasSignaled.store(!signaled.isEmpty, ordering: .releasing)
            return Array(signaled.values)
        }
        if sources.count < 2 { return sources }
        // Each place is read once, because it changes when another loop performs the source.
        return sources.map { ($0, $0.place) }.sorted { $0.1 < $1.1 }.map(\.0)
    }
}
