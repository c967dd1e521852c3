/// A loop's passes, callouts and sleeps during some time. A ``LoopRecorder`` makes it.
///
///     func printSlowest(of recording: LoopRecording) {
///         for span in recording.slowestCallouts.prefix(3) { print(span) }
///     }
public struct LoopRecording: Sendable, Hashable, Codable {
    /// A time in which the loop did one thing.
    public struct Span: Sendable, Hashable, Codable {
        /// The kind of activity, with its details.
        public var activity: Activity
        /// The mode of the innermost run then; nil before the first pass of the recording.
        public var mode: ThreadRunLoop.Mode?
        /// The number of other spans around this one. The passes of a run inside a callout are inside the callout's span.
        public var depth: Int
        /// When the span began; when the recording began, if ``isBeginningKnown`` is false.
        public var start: ContinuousClock.Instant
        /// When the span ended; when the recording ended, if ``isOver`` is false.
        public var end: ContinuousClock.Instant
        /// False when the span began before the recording, or before its oldest event.
        public var isBeginningKnown: Bool
        /// Whether the span ended before the recording did.
        public var isOver: Bool

        /// Makes a span.
        public init(
            _ activity: Activity, mode: ThreadRunLoop.Mode?, depth: Int, start: ContinuousClock.Instant,
            end: ContinuousClock.Instant, isBeginningKnown: Bool = true, isOver: Bool = true
        ) {
            (self.activity, self.mode, self.depth, self.start, self.end) = (activity, mode, depth, start, end)
            (self.isBeginningKnown, self.isOver) = (isBeginningKnown, isOver)
        }

        /// The time from the start to the end.
        public var duration: Duration { start.duration(to: end) }
    }

    /// The activities of a loop.
    public enum Activity: Sendable, Hashable, Codable {
        /// A pass, with its callouts and its sleep. A pass ends where the next one begins, or the run ends.
        case pass
        /// A callout.
        case callout(Callout)
        /// The loop waits for work. Another event loop on the thread may have work meanwhile: a guest, or the loop
        /// that drives the run.
        case sleep(Sleep)
    }

    /// A call of code that the program has given to the loop.
    public struct Callout: Sendable, Hashable, Codable {
        /// The kinds of callouts.
        public typealias Kind = CalloutKind

        /// The kind.
        public var kind: Kind
        /// The item's label; for a source of a descriptor without a label, the descriptor.
        public var label: String?
        /// More than 1 when blocks or tasks that came one after another, in the same few milliseconds, share the span.
        public var count: Int

        /// Makes a callout.
        public init(_ kind: Kind, label: String? = nil, count: Int = 1) {
            (self.kind, self.label, self.count) = (kind, label, count)
        }
    }

    /// A wait for work.
    public struct Sleep: Sendable, Hashable, Codable {
        /// The reason for the end; nil when the sleep is not over, its run ended in it, or the loop polled.
        public var wakeUp: WakeUp?
        /// Whether the loop waited awake: see ``ThreadRunLoop/pollingTime``.
        public var isPolling: Bool

        /// Makes a sleep.
        public init(_ wakeUp: WakeUp? = nil, isPolling: Bool = false) {
            (self.wakeUp, self.isPolling) = (wakeUp, isPolling)
        }
    }

    /// The reason for the end of a sleep.
    public typealias WakeUp = LoopWakeUp

    /// The loop, in words: `the main thread`, or `thread 4711`.
    public var loop: String
    /// When the recording began; the time of the oldest event, if events were dropped.
    public var start: ContinuousClock.Instant
    /// When the recording was stopped, or read.
    public var end: ContinuousClock.Instant
    /// The spans in the order of their starts, each before the spans inside it.
    public var spans: [Span]
    /// The number of oldest events that were dropped, because there was no room for them.
    public var dropped: Int

    /// Makes a recording.
    public init(
        loop: String, start: ContinuousClock.Instant, end: ContinuousClock.Instant, spans: [Span], dropped: Int = 0
    ) {
        (self.loop, self.start, self.end, self.spans, self.dropped) = (loop, start, end, spans, dropped)
    }
}

extension LoopRecording {
    /// The passes, in the order of their starts.
    public var passes: [Span] { spans.filter { $0.activity == .pass } }

    /// The callouts, in the order of their starts.
    public var callouts: [Span] { spans.filter { $0.callout != nil } }

    /// The sleeps, in the order of their starts.
    public var sleeps: [Span] { spans.filter { $0.sleep != nil } }

    /// The callouts, the longest first.
    public var slowestCallouts: [Span] { callouts.sorted { ($1.duration, $0.start) < ($0.duration, $1.start) } }

    /// The time from the recording's start to its end.
    public var duration: Duration { start.duration(to: end) }

    /// A loop's time by activity. The time of an inner run counts once, for the activities of the inner run.
    public struct Totals: Sendable, Hashable {
        /// The loop slept, or polled.
        public var asleep = Duration.zero
        /// The loop was in callouts.
        public var inCallouts = Duration.zero
        /// The loop's own work.
        public var ownWork = Duration.zero
        /// The loop did not run, or its activity is unknown.
        public var elsewhere = Duration.zero
    }

    /// The recording's time by activity.
    public var totals: Totals {
        var totals = Totals()
        totals.elsewhere = duration
        var open: [WritableKeyPath<Totals, Duration>] = []
        for span in spans {
            open.removeLast(open.count - min(open.count, max(0, span.depth)))
            totals[keyPath: open.last ?? \.elsewhere] -= span.duration
            let part: WritableKeyPath<Totals, Duration> =
                switch span.activity {
                case .pass: \.ownWork
                case .callout: \.inCallouts
                case .sleep: \.asleep
                }
            totals[keyPath: part] += span.duration
            open.append(part)
        }
        return totals
    }
}

extension LoopRecording.Span {
    /// The callout, if the span is one.
    public var callout: LoopRecording.Callout? {
        if case .callout(let callout) = activity { callout } else { nil }
    }

    /// The sleep, if the span is one.
    public var sleep: LoopRecording.Sleep? {
        if case .sleep(let sleep) = activity { sleep } else { nil }
    }
}

extension LoopRecording.Span: CustomStringConvertible {
    /// A line for a log.
    public var description: String {
        let name =
            switch activity {
            case .pass: "pass"
            case .callout(let callout): "\(callout)"
            case .sleep(let sleep):
                sleep.isPolling ? "polling" : "sleep" + (sleep.wakeUp.map { ", ended by: \($0.rawValue)" } ?? "")
            }
        return "\(name), \(milliseconds(duration))\(isOver ? "" : " until now")\(mode.map { " in mode \($0)" } ?? "")"
    }
}

extension LoopRecording.Callout: CustomStringConvertible {
    /// The kind, and the label or the count.
    public var description: String {
        if let label { return "\(kind.rawValue) “\(label)”" }
        return count > 1 ? "\(count) \(kind.rawValue)s" : kind.rawValue
    }
}

extension LoopRecording: CustomStringConvertible {
    /// The time by activity, and the slowest callouts.
    public var description: String {
        let (totals, whole) = (totals, max(duration, .nanoseconds(1)))
        func share(_ part: Duration) -> String { "\(Int((part / whole * 100).rounded())) %" }
        var lines = [
            "run loop of \(loop): \(passes.count) \(passes.count == 1 ? "pass" : "passes") in \(milliseconds(duration)), "
                + "\(share(totals.asleep)) asleep, \(share(totals.inCallouts)) in callouts"
        ]
        if dropped > 0 {
            lines.append("  the \(dropped) oldest events were dropped: record for less time, or with more capacity")
        }
        return (lines + slowestCallouts.prefix(5).map { "  \($0)" }).joined(separator: "\n")
    }
}

private func milliseconds(_ duration: Duration) -> String {
    let microseconds = Int(duration / .microseconds(1))
    let fraction = String(microseconds % 1000)
    return "\(microseconds / 1000)." + String(repeating: "0", count: 3 - fraction.count) + "\(fraction) ms"
}
