import CRunLoopShims
import Synchronization

/// A source that the program signals. The corresponding CF type is a `CFRunLoopSource` of version 0.
/// A signal does not wake a loop that sleeps; `wakeUp()` of the loop does. A source can be in several loops and modes;
/// the first pass that finds it signalled performs it. Any thread may call all methods.
public final class RunLoopSource0: Sendable {
    /// Sources of lower order are performed first; sources of equal order in the order they were signalled.
    /// The corresponding CF function is `CFRunLoopSourceGetOrder`.
    public let order: Int
    /// The item's name in dumps and stall reports. The corresponding CF callback is `copyDescription`.
    public let label: String?

    /// Called with the loop, and the loop's mode, that the source has joined or left.
    typealias Change = @Sendable (any ItemLoop, RunLoopMode) -> Void

    private struct State {
        var perform: (@Sendable () -> Void)?
        var schedule: Change?
        var cancel: Change?
        var modes: [ModeFlags] = []
        var callCount = 0
    }

    private let state: Mutex<State>
    /// The number of the first signal since the source was performed, counted over all sources; 0: not signalled.
    private let signaled = Atomic<UInt64>(0)
    private static let signals = Atomic<UInt64>(0)
    let membership = LoopMembership()
    let isRequest: Bool

    init(
        order: Int, label: String? = nil, schedule: Change? = nil, cancel: Change? = nil, isRequest: Bool,
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
            // A source that is signalled again keeps the place of its first signal.
            guard state.perform != nil, !isSignaled else { return }
            signaled.store(Self.signals.add(1, ordering: .relaxed).newValue, ordering: .releasing)
            for mode in state.modes { mode.list(self) }
        }
        LoopThread.wakeDriven { loop in membership.loops.contains { $0 === loop } }
    }

    /// Whether the source is signalled and not yet performed; false when it is invalid. The corresponding CF
    /// function is `CFRunLoopSourceIsSignalled`, which is in no header of the toolchain's.
    public var isSignaled: Bool { signaled.load(ordering: .acquiring) != 0 }

    /// The place among the signalled sources of a mode. Lower places are performed first.
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

    var schedule: Change? { state.withLock { $0.schedule } }
    var cancel: Change? { state.withLock { $0.cancel } }
    var callCount: Int { state.withLock { $0.callCount } }

    /// Ends the signal, and returns the handler to call for it; nil without a signal.
    func takeSignal() -> (@Sendable () -> Void)? {
        guard signaled.exchange(0, ordering: .acquiringAndReleasing) != 0 else { return nil }
        return state.withLock { state in
            state.callCount += 1
            return state.perform
        }
    }
}
