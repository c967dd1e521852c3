import TypedPorts

let serviceName = "com.example.dictionary"

/// Asks what a word means.
struct Lookup: PortRequest {
    typealias Reply = String

    enum Failure: Error, Codable {
        case unknownWord(String)
    }

    var word: String
    /// How long the server takes, in milliseconds.
    var delay = 0
}

/// Asks for all words that begin like this, one after the other.
struct Words: PortStreamRequest {
    typealias Element = String
    var prefix: String
}
