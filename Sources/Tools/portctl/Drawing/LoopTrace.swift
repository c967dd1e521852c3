import Glibc
import Ports
import PortsInspection
import RunLoops

/// Recordings in the Trace Event Format, which Perfetto and Chrome read. A loop is a thread, its passes, callouts and
/// sleeps are slices, and an arrow leads from the sender of a message to the callout that took it.
struct LoopTrace: Encodable {
    private(set) var traceEvents: [Event] = []

    /// A field that a phase does not use has a value that readers ignore. Times are in microseconds.
    struct Event: Encodable {
        /// The phase: X is a slice, M a name, s and f the start and the end of an arrow.
        let ph: String
        let name: String
        let pid, tid: Int
        var cat = ""
        var ts, dur: Double
        /// The arrow's number.
        var id = 0
        /// Joins the end of an arrow to the slice around it.
        var bp = "e"
        var args: [String: String] = [:]
    }

    /// - Parameters:
    ///   - port: The port's name.
    ///   - owner: The process id of its owner.
    ///   - events: The messages of the port meanwhile, as far as they are known.
    init(of port: String, owner: Int, recordings: [LoopRecording], events: [PortEvent] = []) {
        let start = recordings.map(\.start).min() ?? .now
        add("M", "process_name", owner, 0, args: ["name": "owner of \(port)"])
        for (index, recording) in recordings.enumerated() {
            add("M", "thread_name", owner, index + 1, args: ["name": "run loop of \(recording.loop)"])
            for span in recording.spans { add(span, owner, index + 1, since: start) }
        }
        for (sender, events) in Dictionary(grouping: events, by: \.sender) where Int(sender) != owner {
            add("M", "process_name", Int(sender), 0, args: ["name": "sender \(events[0].senderText)"])
        }
        // The clock of the events began in 1970.
        let origin = start.duration(to: .now) - sinceEpoch()
        let callouts = recordings.map { recording in
            recording.callouts.map { (start: start.duration(to: $0.start), end: start.duration(to: $0.end)) }
        }
        var begun = callouts.map { _ in 0 }
        for (_, events) in Dictionary(grouping: events, by: \.number).sorted(by: { $0.key < $1.key }) {
            guard let message = events.first(where: { $0.duration == nil }) else { continue }
            let taken = origin + .seconds(message.time)
            // The innermost callout took the message: of those that have begun, the last.
            for loop in callouts.indices {
                while begun[loop] < callouts[loop].count, callouts[loop][begun[loop]].start <= taken {
                    begun[loop] += 1
                }
            }
            let loop = callouts.indices.first { begun[$0] > 0 && callouts[$0][begun[$0] - 1].end >= taken }
            add(message, at: taken, end: events.last, thread: loop.map { (owner, $0 + 1) })
        }
    }

    private mutating func add(
        _ phase: String, _ name: String, _ pid: Int, _ tid: Int, _ category: String = "", at time: Duration = .zero,
        lasting duration: Duration = .zero, id: Int = 0, args: [String: String] = [:]
    ) {
        traceEvents.append(
            Event(
                ph: phase, name: name, pid: pid, tid: tid, cat: category, ts: time / .microseconds(1),
                dur: duration / .microseconds(1), id: id, args: args))
    }

    private mutating func add(_ span: LoopRecording.Span, _ pid: Int, _ tid: Int, since start: ContinuousClock.Instant)
    {
        let (kind, name) =
            switch span.activity {
            case .pass: ("pass", "pass")
            case .sleep(let sleep): ("sleep", sleep.isPolling ? "polling" : "sleep")
            case .callout(let callout): (callout.kind.rawValue, callout.description)
            }
        var args = ["mode": span.mode?.rawValue, "wakeUp": span.sleep?.wakeUp?.rawValue].compactMapValues(\.self)
        if !span.isOver { args["end"] = "not in the recording" }
        add("X", name, pid, tid, kind, at: start.duration(to: span.start), lasting: span.duration, args: args)
    }

    /// Adds a message as a slice of its sender, which lasts until the last of its events, and an arrow to the thread of
    /// the loop that took the message, if it is known.
    private mutating func add(_ message: PortEvent, at time: Duration, end: PortEvent?, thread: (pid: Int, tid: Int)?) {
        let (sender, name) = (Int(message.sender), "\(message.kind.rawValue) \(message.name ?? "id \(message.id)")")
        let args = ["outcome": end?.kind.rawValue ?? "", "bytes": "\(message.size)"]
        add("X", name, sender, 0, "message", at: time, lasting: end?.duration ?? .zero, args: args)
        guard let thread else { return }
        add("s", name, sender, 0, "message", at: time, id: message.number)
        add("f", name, thread.pid, thread.tid, "message", at: time, id: message.number)
    }
}

/// The time since 1970.
private func sinceEpoch() -> Duration {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return .seconds(now.tv_sec) + .nanoseconds(now.tv_nsec)
}
