/// Why two right loops may go on differently from some event on, or how Foundation's goes wrong.
///
/// A script is compared up to there; the documentation's page of differences tells the same for readers.
package enum Parting: String, Sendable, Codable, CaseIterable {
    // MARK: What Foundation leaves open

    /// Two of a descriptor, a timer, a wake-up, the end of the run and the main queue were there at once. The loop
    /// serves the one that the kernel names first.
    case readyTogether = "ready together"
    /// Two timers came due a moment apart: the loop may have seen one of them or both.
    case dueTogether = "due together"
    /// A source that acts when it joins or leaves a mode did so for several modes or sources at once: sets, in Foundation.
    case movesTogether = "moves together"

    // MARK: What was decided otherwise

    /// Our loop settles which blocks a pass performs before the first of them; Foundation asks at each one's turn
    /// whether the mode is common by then.
    case blocksSettled = "a block makes its mode common"

    // MARK: What Foundation does wrong

    /// When a mode's last timer is removed, Foundation leaves the kernel's timer set, and wakes for nothing.
    case timerGone = "wakes for a timer that is gone"
    /// A timer that is given a date in its own callout is set in the mode that called it only, not in its others.
    case timerNotSet = "does not set a timer dated in its own callout in its other modes"
    /// Foundation takes a pass for idle when the last of several signalled sources turns out to have been performed
    /// or invalidated by those before it: it goes to sleep on the blocks that they have queued.
    case lastSourceGone = "forgets that a source was handled"
    /// Foundation takes what has ended a sleep, and lowers the descriptor, before it tells the observers of that: a run
    /// inside such an observer does not see it, and raising the descriptor again there has it served twice.
    case eventTaken = "takes what ended the sleep before its observers are told"
    /// The end of an outer run's time wakes the inner one.
    case outerTimeOver = "wakes an inner run when the outer one's time is over"
    /// While Foundation performs blocks it hides those of other modes from the runs inside them.
    case blocksHidden = "hides blocks from a run inside a block"

    /// How many events later it may show: most choices do in the next pass, which inner runs may precede, some whenever
    /// a mode is run again.
    var reach: Int {
        switch self {
        case .movesTogether, .timerNotSet: 100_000
        default: 40
        }
    }
}
