// One pass of a run, as values.

/// Why a run of a loop ended. The corresponding CF type is `CFRunLoopRunResult`.
public enum RunLoopResult: Sendable, Hashable {
    /// The mode has no source, timer or block left.
    case finished
    /// The run was stopped.
    case stopped
    /// The time limit has come.
    case timedOut
    /// A source was handled, in a run that returns after a source.
    case handledSource
}

/// The mode of a run in progress, with the fields that a pass reads without the lock.
struct OpenMode {
    let index: Int
    /// The number of open runs, with this one.
    let depth: Int
    let flags: ModeFlags
    let waitSet: WaitSet
    /// Whether the run serves libdispatch's main queue: decided once, after the entry observers, as in CFRunLoop.
    var servesMainQueue = false
}

/// The state of a run from one pass to the next.
struct Pass {
    let limit: MonotonicInstant
    let returnAfterSourceHandled: Bool
    /// Whether the run goes on without an item.
    var mayBeEmpty = false
    var handledSource = false
    /// The main queue's turn comes first in a pass, except in the first pass and the pass after its last turn.
    var hasJustServedMainQueue = true
}

/// The wait between the two halves of a pass.
enum Pause {
    case sleep
    /// The pass only polls.
    case nothing
    /// The main queue has its turn, and nothing else.
    case mainQueue
}

/// The event that the second half of a pass serves. Not copied, because a copy would retain the source once more.
enum PassEvent: ~Copyable {
    case none
    case timers
    case mainQueue
    /// The loop's guest has served a source of its own.
    case guest
    case source(ModeItems.Watched, RunLoopReadiness)
}

/// Gives the loop's thread to a guest; returns whether it has served a source of its own.
typealias GuestSleep = @Sendable (GuestTime) -> Bool

/// The time in which a loop sleeps, and its guest has the thread.
struct GuestTime {
    let mode: RunLoopMode
    let waitSet: Int32
    let deadline: MonotonicInstant
    let endsAfterSource: Bool
}
