import CRunLoopShims
import Glibc
import Synchronization

extension ThreadRunLoop {
    /// A source that a descriptor wakes. The corresponding CF type is a `CFRunLoopSource` of version 1.
    ///
    /// The descriptor stays its owner's: each mode that takes the source in waits on a duplicate of its own, so the loop
    /// never waits on a stranger's descriptor of the same number. A duplicate keeps the file open and tells of it: the
    /// owner invalidates the source, and then closes the descriptor.
    ///
    /// An error and a hang-up are told once, when nothing is left to read; then the source is invalid.
    ///
    /// A source may know more than its descriptor does: ``raise()`` says that there is work although the descriptor
    /// is silent, and ``clear()`` takes that back. A descriptor that speaks in edges, such as ZeroMQ's, needs that.
    public final class Source1: Sendable {
        /// The descriptor that wakes a loop.
        public let descriptor: Int32
        /// What it is waited for.
        public let interest: Readiness
        /// Kept for who asks, as by CFRunLoop; ready sources are served in the order the kernel tells them.
        /// The corresponding CF function is `CFRunLoopSourceGetOrder`.
        public let order: Int
        /// What dumps of the loop and reports of its stalls call it. The corresponding CF callback is
        /// `copyDescription`.
        public let label: String?

        /// Handles what there is. True when something was handled.
        public typealias Perform = @Sendable (_ turn: inout Turn) -> Bool

        /// A function that is itself a generic type's value is wrapped anew at each access; a field is not.
        private struct State {
            var perform: Perform?
            var callCount = 0
        }

        private let state: Mutex<State>
        private let raised = Atomic(false)
        let duplicates: Bool
        let membership = LoopMembership()

        /// Makes a source. The corresponding CF function is `CFRunLoopSourceCreate` with a version 1 context, whose
        /// `getPort` is `descriptor`.
        ///
        /// - Parameters:
        ///   - descriptor: The descriptor to wait on. It is not closed.
        ///   - interest: What to wait for.
        ///   - order: Kept for who asks.
        ///   - label: What dumps and reports call it.
        ///   - perform: Called on the loop's thread when the descriptor is ready or the source is raised. It handles
        ///     one message after each ``Turn/next()`` that says so, and returns whether it handled any. With one unit
        ///     of work a call, it need not ask.
        public convenience init(
            descriptor: Int32, interest: Readiness = .readable, order: Int = 0, label: String? = nil,
            perform: @escaping Perform
        ) {
            self.init(
                descriptor: descriptor, interest: interest, order: order, label: label, duplicates: true,
                perform: perform)
        }

        /// - Parameter duplicates: False when the descriptor's owner is sure to take the source out before closing it.
        package init(
            descriptor: Int32, interest: Readiness = .readable, order: Int = 0, label: String? = nil,
            duplicates: Bool, perform: @escaping Perform
        ) {
            self.descriptor = descriptor
            self.interest = interest
            self.order = order
            self.label = label
            self.duplicates = duplicates
            state = Mutex(State(perform: perform))
        }

        /// False once it was invalidated. The corresponding CF function is `CFRunLoopSourceIsValid`.
        public var isValid: Bool { !crl_is_forked() && state.withLock { $0.perform != nil } }

        /// Takes it out of every loop, for good. Any thread may call it.
        /// The corresponding CF function is `CFRunLoopSourceInvalidate`.
        public func invalidate() {
            Item.source1(self).invalidate { state.withLock { $0.perform.take() } }
        }

        /// Says that there is work whatever the descriptor tells: every loop that has the source will perform it, until
        /// ``clear()``. Wakes the loops that sleep. Any thread may call it.
        public func raise() {
            guard !crl_is_forked(), !raised.exchange(true, ordering: .sequentiallyConsistent) else { return }
            for loop in membership.loops { loop.noteRaised(self) }
        }

        /// ``raise()`` by the one whose turn it is: in the usual case its loop is the only one to tell.
        package func raise(during turn: borrowing Turn) {
            guard !raised.exchange(true, ordering: .sequentiallyConsistent) else { return }
            // Asked after the exchange: a loop that takes the source in later sees that it is raised.
            if membership.isOnly(turn.loop) { return turn.loop.noteRaised(self) }
            for loop in membership.loops { loop.noteRaised(self) }
        }

        /// Takes ``raise()`` back: from now on the descriptor alone tells.
        public func clear() {
            raised.store(false, ordering: .sequentiallyConsistent)
        }

        /// Whether the calling thread's loop has the source, and no other.
        package var isOnlyInCurrentLoop: Bool {
            let loops = membership.loops
            return !loops.isEmpty && loops.allSatisfy(\.isCurrent)
        }

        /// Whether no loop has the source.
        package var isInNoLoop: Bool { membership.loops.isEmpty }

        /// How often it was performed.
        var callCount: Int { state.withLock { $0.callCount } }

        var isRaised: Bool { raised.load(ordering: .sequentiallyConsistent) }

        func perform(_ turn: inout Turn) -> Bool {
            let former = state.withLock { state in
                state.callCount += 1
                return state
            }
            guard let perform = former.perform else { return false }
            return perform(&turn)
        }
    }
}
