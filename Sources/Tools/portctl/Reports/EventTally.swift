import Ports

/// Counts the events of a port that a monitor has shown.
struct EventTally {
    private var counts: [PortEvent.Kind: Int] = [:]
    private var senders: Set<Int32> = []
    private var slowest: Duration?
    private var lost = 0
    /// The requests whose askers have given up, until their ends, which do not count again.
    private var cancelled: Set<Int> = []

    mutating func add(_ event: PortEvent) {
        senders.insert(event.sender)
        if event.kind == .cancelled { cancelled.insert(event.number) }
        let isCounted = event.kind == .unanswered && cancelled.remove(event.number) != nil
        if !isCounted { counts[event.kind, default: 0] += 1 }
        if let duration = event.duration { slowest = max(slowest ?? .zero, duration) }
    }

    mutating func add(lost count: Int) { lost += count }

    var text: String {
        func text(_ kind: PortEvent.Kind, _ one: String, _ many: String) -> String? {
            counts[kind].map { "\($0) \($0 == 1 ? one : many)" }
        }
        let taken = [text(.message, "message", "messages"), text(.request, "request", "requests")].compactMap(\.self)
        let ends = [
            text(.handled, "handled", "handled"), text(.reply, "reply", "replies"),
            text(.failure, "failure", "failures"), text(.cancelled, "cancelled", "cancelled"),
            text(.unanswered, "unanswered", "unanswered"),
            slowest.map { "the slowest after \(milliseconds($0)) ms" },
        ].compactMap(\.self)
        var text = taken.isEmpty ? "no messages" : taken.joined(separator: " and ")
        if !taken.isEmpty { text += " of \(senders.count) \(senders.count == 1 ? "process" : "processes")" }
        if !ends.isEmpty { text += ": " + ends.joined(separator: ", ") }
        return text + (lost > 0 ? "; \(lost) \(lost == 1 ? "event" : "events") left out" : "")
    }
}
