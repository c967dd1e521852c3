import TypedPorts

// What the daemon and its clients share.

let serviceName = "com.example.tally"

/// Counts a vote, and is answered with how many the choice has now. A vote that is sent again, as its client cannot know
/// whether a daemon that has ended counted it, counts once: the voter numbers its votes.
struct Vote: PortRequest {
    typealias Reply = Int

    enum Failure: Error, Codable, CustomStringConvertible {
        case emptyChoice
        var description: String { "a vote needs a choice" }
    }

    var choice: String
    var voter: String
    var number: Int
}

/// Asks for the counts, and for the new ones after each vote. A slow client gets the latest only.
struct Counts: PortStreamRequest {
    typealias Element = [String: Int]
}
