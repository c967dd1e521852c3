/// The contents of a frame to servers. The reply subject of a request names its asker and its number.
enum Question: Codable {
    case request(id: UInt32)
    /// A request for a stream. The window is the number of frames that the server may send before it hears from the
    /// reader.
    case stream(id: UInt32, window: UInt32)
    /// The asker needs these requests no more: it gave them up, or has all elements of the stream.
    case release([String])
    /// The asker waits for these requests, by their numbers, and has taken a number of frames of each stream. With
    /// `wantsAnswer`, the server says which of them it has.
    case hold(asker: String, wantsAnswer: Bool, taken: [UInt64: UInt32])
}
