/// An event of the application, made of raw ones.
final class Event {
    private let name: String
    private var count = 1

    init(_ name: String) { self.name = name }
    deinit { print("   (\(name) is released.)") }

    var text: String { count == 1 ? name : "\(name), \(count) times" }

    /// Whether the raw event belongs to this one.
    func takes(_ name: String) -> Bool {
        guard name == self.name, name == "move" else { return false }
        count += 1
        return true
    }
}

/// The events that the application has not handled.
final class EventQueue {
    private var events: [Event] = []

    func append(_ raw: UInt8) {
        let name =
            switch raw {
            case UInt8(ascii: "d"): "touch"
            case UInt8(ascii: "m"): "move"
            default: "lift"
            }
        if events.last?.takes(name) != true { events.append(Event(name)) }
    }

    func takeAll() -> [Event] {
        defer { events = [] }
        return events
    }
}
