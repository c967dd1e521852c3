import CRunLoopShims
import Glibc
import Synchronization

/// A source that a descriptor wakes. The corresponding CF type is a `CFRunLoopSource` of version 1.
///
/// The descriptor stays its owner's. Each mode of the source waits on a duplicate, so the loop never waits on
/// another file that gets the same number. A duplicate keeps the file open, so the owner invalidates the source, and
/// then closes the descriptor.
///
/// An error or a hang-up is reported once, when nothing is left to read; then the source is invalid.
///
/// ``raise()`` reports work that the descriptor does not, and ``clear()`` takes the report back. An edge-triggered
/// descriptor, such as ZeroMQ's, needs that.
public final class RunLoopSource1: Sendable {
    /// The descriptor that the source waits on.
    public let descriptor: Int32
    /// The events that the source waits for.
    public let interest: RunLoopReadiness
    /// Kept, and not used, as by CFRunLoop, because ready sources are served in the order in which the kernel reports them.
    /// The corresponding CF function is `CFRunLoopSourceGetOrder`.
    public let order: Int
    /// The item's name in dumps and stall reports. The corresponding CF callback is `copyDescription`.
    public var label: String? { makeLabel() }
    private let makeLabel: @Sendable () -> String?

    /// Handles the pending work. Returns whether there was any.
    public typealias Perform = @Sendable (_ turn: inout RunLoopTurn) -> Bool

    /// The report of the source itself, besides the descriptor's.
    private enum Report: UInt8, AtomicRepresentable {
        case none
        case work
        /// There may be work that nothing else reports, so a loop polls for it.
        case polled
    }

    /// A struct, because a generic type wraps a function value again at each access.
    private struct State {
        var perform: Perform?
        var callCount = 0
    }

    private let state: Mutex<State>
    /// Whether the source has work that the descriptor does not report.
    let hasWork: @Sendable () -> Bool
    private let report = Atomic(Report.none)
    private let invalidated: @Sendable () -> Void
    let duplicates: Bool
    let membership = LoopMembership()

    /// Makes a source. The corresponding CF function is `CFRunLoopSourceCreate` with a version 1 context, whose
    /// `getPort` is `descriptor`.
    ///
    /// `perform` is called on the loop's thread when the descriptor is ready or the source is raised. The closure
    /// handles one message after each ``RunLoopTurn/next()`` that returns true, and returns whether it handled any. A
    /// closure that handles one message a call need not call ``RunLoopTurn/next()``.
    public convenience init(
        descriptor: Int32, interest: RunLoopReadiness = .readable, order: Int = 0, label: String? = nil,
        perform: @escaping Perform
    ) {
        self.init(
            descriptor: descriptor, interest: interest, order: order, label: { label }, duplicates: true,
            perform: perform)
    }

    /// - Parameters:
    ///   - label: The item's name. Called with the loop's lock held.
    ///   - duplicates: False when the owner always invalidates the source before closing the descriptor.
    ///   - hasWork: Whether there is work, for a loop that polls. It must be quick, and is called on the loop's thread.
    ///   - invalidated: Called by ``invalidate()``, before it returns.
    package init(
        descriptor: Int32, interest: RunLoopReadiness = .readable, order: Int = 0,
        label: @escaping @Sendable () -> String? = { nil }, duplicates: Bool,
        hasWork: @escaping @Sendable () -> Bool = { true }, invalidated: @escaping @Sendable () -> Void = {},
        perform: @escaping Perform
    ) {
        self.descriptor = descriptor
        self.interest = interest
        self.order = order
        makeLabel = label
        self.duplicates = duplicates
        self.hasWork = hasWork
        self.invalidated = invalidated
        state = Mutex(State(perform: perform))
    }

    /// False once the source was invalidated. The corresponding CF function is `CFRunLoopSourceIsValid`.
    public var isValid: Bool { !crl_is_forked() && state.withLock { $0.perform != nil } }

    /// Removes the source from all loops for good. Any thread may call it.
    /// The corresponding CF function is `CFRunLoopSourceInvalidate`.
    public func invalidate() {
        Item.source1(self).invalidate { state.withLock { $0.perform.take() } }
        invalidated()
    }

    /// Reports work whatever the state of the descriptor. Every loop that has the source performs it, until
    /// ``clear()``. Wakes the loops that sleep. Any thread may call it.
    public func raise() {
        guard !crl_is_forked(), report.exchange(.work, ordering: .sequentiallyConsistent) == .none else { return }
        for loop in membership.loops { loop.noteRaised(self) }
    }

    /// ``raise()`` during the source's turn, when the turn's loop is usually the only one to notify.
    package func raise(during turn: borrowing RunLoopTurn) { raise(.work, during: turn) }

    private func raise(_ report: Report, during turn: borrowing RunLoopTurn) {
        guard !crl_is_forked(), self.report.exchange(report, ordering: .sequentiallyConsistent) == .none else {
            return
        }
        // Asked after the exchange, because a loop that the source joins later sees that the source is raised.
        if membership.isOnly(turn.itemLoop) { return turn.itemLoop.noteRaised(self) }
        for loop in membership.loops { loop.noteRaised(self) }
    }

    /// Leaves ``raise()`` to a run inside the handler, until ``settleRaise(during:)``, because few handlers run the loop.
    ///
    /// - Returns: False when another loop has the source, too. Then the source is raised at once.
    package func raiseIfNested(during turn: borrowing RunLoopTurn) -> Bool {
        guard membership.isOnly(turn.itemLoop) else {
            raise()
            return false
        }
        _ = turn.itemLoop.unraised.exchange(.passUnretained(self))
        return true
    }

    /// Ends ``raiseIfNested(during:)`` with the turn.
    package func settleRaise(during turn: borrowing RunLoopTurn) { _ = turn.itemLoop.unraised.exchange(nil) }

    /// Takes ``raise()`` back. From now on only the descriptor reports work.
    public func clear() { report.store(.none, ordering: .sequentiallyConsistent) }

    /// Whether the calling thread's loop has the source, and no other loop.
    package var isOnlyInCurrentLoop: Bool { membership.isOnlyInCurrentLoop }

    package var isInNoLoop: Bool { membership.isEmpty }

    var callCount: Int { state.withLock { $0.callCount } }

    var isRaised: Bool { report.load(ordering: .sequentiallyConsistent) != .none }

    /// Asks the turn's loop to poll for work before it serves the source, which is raised, once more. ``raise()`` ends
    /// the polling at once. The caller checks for work afterwards, because a ``raise()`` before the call is forgotten.
    ///
    /// - Returns: False when there is work, or the loop does not poll now.
    package func poll(during turn: borrowing RunLoopTurn) -> Bool {
        guard turn.itemLoop.mayPoll, !hasWork(), membership.isOnly(turn.itemLoop),
            turn.itemLoop.beginPolling(for: self, mode: turn.mode)
        else {
            return false
        }
        raise(.polled, during: turn)
        return true
    }

    /// Takes ``poll(during:)`` back, because there is work.
    package func stopPolling(during turn: borrowing RunLoopTurn) {
        turn.itemLoop.giveUpPolling()
        raise(during: turn)
    }

    var isPolled: Bool { report.load(ordering: .relaxed) == .polled }

    func perform(_ turn: inout RunLoopTurn) -> Bool {
        let former = state.withLock { state in
            state.callCount += 1
            return state
        }
        return former.perform?(&turn) ?? false
    }
}

/// A call of a ``RunLoopSource1`` in one pass of a loop, with a bound on the messages handled.
public struct RunLoopTurn {
    /// The events that the descriptor is ready for; empty when the source was raised.
    public let readiness: RunLoopReadiness
    /// The source whose turn it is.
    public let source: RunLoopSource1

    /// The loop that serves the source.
    let itemLoop: any ItemLoop
    fileprivate let mode: Int
    private var left: Int
    private var changes: Int

    /// The most messages that a source handles before other sources get their turn.
    private static let batch = 64

    init(_ source: RunLoopSource1, in loop: any ItemLoop, mode: Int, readiness: RunLoopReadiness, one: Bool) {
        self.source = source
        itemLoop = loop
        self.mode = mode
        self.readiness = readiness
        left = one ? 1 : Self.batch
        changes = loop.changes.load(ordering: .acquiring)
    }

    /// Whether the source may handle one more message now. False when the batch is over, and as soon as the run was
    /// stopped or the source removed from the mode. The remaining messages wait for the next turn.
    public mutating func next() -> Bool {
        guard left > 0 else { return false }
        left -= 1
        // In a forked child the messages are the parent's.
        if crl_is_forked() { return false }
        let now = itemLoop.changes.load(ordering: .acquiring)
        if now == changes { return true }
        changes = now
        return itemLoop.mayGoOn(source, mode: mode)
    }
}
