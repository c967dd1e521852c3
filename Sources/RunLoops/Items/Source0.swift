import CRunLoopShims
import Synchronization

extension ThreadRunLoop {
    /// A source that the program signals. The corresponding CF type is a `CFRunLoopSource` of version 0.
    /// Signalling does not wake a loop that sleeps; ``ThreadRunLoop/wakeUp()`` does. A source can be in several loops
    /// and modes; the first pass that finds it signalled performs it. Any thread may call all methods.
    public final class Source0: Sendable {
        /// Sources of lower order are performed first; sources of equal order in the order they were signalled.
        /// The corresponding CF function is `CFRunLoopSourceGetOrder`.
        public let order: Int
        /// The item's name in dumps and stall reports. The corresponding CF callback is `copyDescription`.
        public let label: String?

        /// Called with the loop, and the loop's mode, that the source has joined or left.
        public typealias Callback = @Sendable (ThreadRunLoop, Mode) -> Void

        private struct State {
            var perform: (@Sendable () -> Void)?
            var schedule: Callback?
            var cancel: Callback?
            var modes: [ModeFlags] = []
            var callCount = 0
        }

        private let state: Mutex<State>
        /// The number of the first signal since the source was performed, counted over all sources; 0: not signalled.
        private let signaled = Atomic<UInt64>(0)
        private static let signals = Atomic<UInt64>(0)
        let membership = LoopMembership()
        let isRequest: Bool

        /// `schedule` is called on the thread that has added the source to a mode; `cancel` on the one that has removed
        /// it, or at the end of the loop's thread; `perform` on the loop's thread, once for all signals until then.
        /// The corresponding CF function is `CFRunLoopSourceCreate`.
        public convenience init(
            order: Int = 0, label: String? = nil, schedule: Callback? = nil, cancel: Callback? = nil,
            perform: @escaping @Sendable () -> Void
        ) {
            self.init(
                order: order, label: label, schedule: schedule, cancel: cancel, isRequest: false, perform: perform)
        }

        init(
            order: Int, label: String? = nil, schedule: Callback? = nil, cancel: Callback? = nil, isRequest: Bool,
            perform: @escaping @Sendable () -> Void
        ) {
            self.order = order
            self.label = label
            self.isRequest = isRequest
            state = Mutex(State(perform: perform, schedule: schedule, cancel: cancel))
        }

        /// Marks the source for a loop's next pass. The corresponding CF function is `CFRunLoopSourceSignal`.
        public func signal() {
            if crl_is_forked() { return }
            state.withLock { state in
                // A second signal keeps the place of the first.
                guard state.perform != nil, !isSignaled else { return }
                signaled.store(Self.signals.add(1, ordering: .relaxed).newValue, ordering: .releasing)
                for mode in state.modes { mode.list(self) }
            }
            ThreadRunLoop.wakeUpDriven { loop in membership.loops.contains { $0 === loop } }
        }

        /// Whether the source is signalled and not yet performed; false when it is invalid. The corresponding CF
        /// function is `CFRunLoopSourceIsSignalled`, which is in no header of the toolchain's.
        public var isSignaled: Bool { signaled.load(ordering: .acquiring) != 0 }

        /// The place among the signalled sources of a mode: lower places are performed first.
        var place: (order: Int, signal: UInt64) { (order, signaled.load(ordering: .acquiring)) }

        /// False once the source was invalidated. The corresponding CF function is `CFRunLoopSourceIsValid`.
        public var isValid: Bool { !crl_is_forked() && state.withLock { $0.perform != nil } }

        /// Removes the source from all loops for good. The corresponding CF function is `CFRunLoopSourceInvalidate`.
        public func invalidate() {
            let wasValid = Item.source0(self).invalidate {
                state.withLock { state in
                    signaled.store(0, ordering: .releasing)
                    return state.perform.take()
                }
            }
            guard wasValid else { return }
            // Released after the lock, as the handler is.
            let callbacks = state.withLock { ($0.schedule.take(), $0.cancel.take()) }
            withExtendedLifetime(callbacks) {}
        }

        /// Lists the source with the mode at each signal, and now if it is signalled already.
        func attach(_ mode: ModeFlags) {
            state.withLock { state in
                state.modes.append(mode)
                if isSignaled { mode.list(self) }
            }
        }

        func detach(_ mode: ModeFlags) {
            state.withLock { $0.modes.removeAll { $0 === mode } }
            mode.unlist(self)
        }

        var schedule: Callback? { state.withLock { $0.schedule } }
        var cancel: Callback? { state.withLock { $0.cancel } }
        var callCount: Int { state.withLock { $0.callCount } }

        func performIfSignaled(in loop: ThreadRunLoop) -> Bool {
            guard signaled.exchange(0, ordering: .acquiringAndReleasing) != 0 else { return false }
            let perform = state.withLock { state in
                state.callCount += 1
                return state.perform
            }
            guard let perform else { return false }
            loop.calling(Callout(.source0, self), perform)
            return true
        }
    }
}
