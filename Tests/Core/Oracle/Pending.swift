import RunLoops

/// What a loop has before it, as far as is needed to tell where two right loops may part.
struct Pending {
    var raised: Set<Int> = []
    var dues: [Int: MonotonicInstant] = [:]
    /// In the order of their signals.
    var signaled: [Int] = []
    /// How many runs were in progress when each Source0 in progress was called.
    var performing: [Int] = []
    /// On the main queue, and whether one of them is in progress.
    var queued = 0
    var servesQueue = false
    /// The timers whose callouts are in progress, the modes of the runs that called them, and whether each was the first
    /// of those due at once.
    var firing: [(timer: Int, mode: Int?, isFirst: Bool)] = []
    /// Blocks queued, and in progress.
    var blocks = (queued: 0, running: 0)
    var passesSinceTimer: Int?
    /// How many passes have begun since a wake-up that none may have taken; nil when there was none.
    var passesSinceWakeUp: Int? {
        didSet { if passesSinceWakeUp == 0 { wakeUps += 1 } }
    }
    var wakeUps = 0
    var hadCallout = false
    /// The runs in progress: their modes, whether they only poll, and when their time is over, which is known once
    /// their entry has been told; 0 for a time without end.
    var runs: [(mode: Int, polls: Bool, seconds: Double, end: MonotonicInstant)] = []
    /// Between which dates Foundation's kernel timer goes off for a timer that is gone, by mode, and how many passes of
    /// the mode have begun since.
    var left: [Int: (from: MonotonicInstant, to: MonotonicInstant, passes: Int)] = [:]
    /// How many runs were in progress when each sleep ended that observers are being told of.
    var waking: [Int] = []
    var partings: [(event: Int, reason: Parting)] = []

    /// Whether a descriptor, a timer or the main queue was served, or a timer that was due went unserved. Of the first two
    /// of them to be ready the earlier goes first; later ones are where the kernel has them since it named them last.
    var hasServed = false
    /// Whether a timer that is due would compete with a descriptor or the main queue in no known order.
    var isTaken: Bool { !raised.isEmpty && hasServed || queued > 0 }
    var isWoken: Bool { passesSinceWakeUp != nil }
    /// Whether the pass in progress does not sleep, whatever comes.
    var polls: Bool { runs.last?.polls == true || performing.last == runs.count }
    var isTimeOver: Bool { runs.contains { $0.end < .now + .milliseconds(1) } }

    /// While a timer fires, and once more after it, Foundation's kernel timer may say that one is due.
    var hasTimerDue: Bool {
        passesSinceTimer != nil || !firing.isEmpty || dues.values.contains(where: \.hasPassed)
            || left.values.contains { $0.from.hasPassed }
    }

    mutating func part(_ reason: Parting, at event: Int) {
        partings.append((event, reason))
    }

    /// A wake-up that the loop may not take before its next sleep.
    mutating func wake() { passesSinceWakeUp = 0 }

    /// The entry of a run has been told: its time begins.
    mutating func beginTime() {
        guard let run = runs.last, run.seconds > 0, run.end == .distantFuture else { return }
        runs[runs.count - 1].end = .now + .seconds(run.seconds)
    }

    /// A pass begins. One that served nothing else has used up the wake-ups that came before it.
    mutating func beginPass(_ mode: Int) {
        defer { hadCallout = false }
        if let passes = passesSinceTimer, !hadCallout {
            passesSinceTimer = passes < runs.count ? passes + 1 : nil
        }
        if let date = left[mode], date.to.hasPassed {
            let passes = hadCallout ? 0 : date.passes + 1
            // As below: one of the outer runs' passes may be the one counted.
            left[mode] = passes > runs.count ? nil : (date.from, date.to, passes)
        }
        // The outer runs' passes began without sleeping, too.
        if let passes = passesSinceWakeUp, !hadCallout {
            passesSinceWakeUp = passes < runs.count ? passes + 1 : nil
        }
    }

    /// The loop has woken up: with nothing to wake for, if it is Foundation's.
    mutating func wakeFromSleep(_ mode: Int, at event: Int) {
        if let date = left[mode], date.from.hasPassed { part(.timerGone, at: event) }
        waking.append(runs.count)
        if runs.dropLast().contains(where: { $0.end.hasPassed }) { part(.outerTimeOver, at: event) }
    }
}
