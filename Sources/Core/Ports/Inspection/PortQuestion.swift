import RunLoops

/// A question about a port to its owner, of a process of the same user.
package enum PortQuestion: Sendable, Codable {
    /// The question how many messages the port has taken, and how many wait. The answer is a ``PortStatistics``.
    case statistics
    /// The question who takes the port's messages, observed for some time. The answer is a ``PortInfo``.
    case info(observing: Duration)
    /// The question for recordings of the port's loops. The answers are ``RecordingPart``s, and an end.
    case recordings(for: Duration)
    /// The question for the messages that the port takes, until the asker's port for the answers ends. The answers are
    /// ``PortEvents``, the first without any.
    case monitor(PortEvent.Filter)

    /// The longest observation.
    package static let longestObservation = Duration.seconds(10)
    /// The longest recording.
    package static let longestRecording = Duration.seconds(60)
    /// The most loops of a port that are recorded.
    package static let mostRecordings = 8
}

/// A recording of a loop, with some of its spans.
package struct RecordingPart: Sendable, Codable {
    /// The number of the recorded loop among the port's loops.
    package var number: Int
    package var recording: LoopRecording
}

/// The kind of an answer: the id of a message to the asker.
package enum AnswerKind: UInt32 {
    /// A value. Another answer may follow.
    case value
    /// There is no further value.
    case end
    /// The port is gone.
    case noPort
    /// The owner answers as many questions of this kind as it takes.
    case busy
}
