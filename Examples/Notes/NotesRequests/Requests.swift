import TypedPorts

/// The name by which clients find the daemon.
public let serviceName = "com.example.notes"

/// Adds a note.
public struct Add: PortRequest {
    /// The note's number.
    public typealias Reply = Int

    /// Why a note is not added.
    public enum Failure: Error, Codable {
        /// There is nothing to note.
        case noteIsEmpty
    }

    /// The note.
    public var text: String

    /// Makes the request.
    public init(_ text: String) { self.text = text }
}

/// Asks for all notes.
public struct AllNotes: PortRequest {
    /// The notes, the oldest first.
    public typealias Reply = [String]

    /// Makes the request.
    public init() {}
}

/// Asks for the notes to come, one after the other.
public struct NewNotes: PortStreamRequest {
    /// A new note.
    public typealias Element = String

    /// Makes the request.
    public init() {}
}
