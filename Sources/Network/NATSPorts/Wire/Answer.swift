import Ports

/// The contents of a frame to an asker.
enum Answer: Codable {
    case reply(id: UInt32)
    /// The handler has failed.
    case failed(RequestFailure)
    /// The server handles as many requests of this kind as it may.
    case busy(limit: Int)
    /// Nobody has handled the request, so that another server may be asked.
    case refused
    /// No reply follows.
    case unanswered
    /// A stream has begun. Its server is reached by the subject.
    case begun(holder: String)
    /// Elements of a stream. Their frames and the end have numbers, from 0.
    case elements(number: UInt32, id: UInt32)
    /// The end of a stream, with the failure of its handler.
    case end(number: UInt32, RequestFailure?)
    /// The server has these requests in progress, by their numbers, and has sent a number of frames of each stream.
    case held(holder: String, sent: [UInt64: UInt32])
}
