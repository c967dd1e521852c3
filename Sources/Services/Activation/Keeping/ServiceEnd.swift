/// How a start of a service has ended.
enum ServiceEnd: Hashable {
    /// The service has not taken its port.
    case notStarted(String)
    /// The process has ended, and was not asked to. The text about its output is for a reason that is shown.
    case crashed(String, output: String = "")
    /// The service has given its port back, and has taken none of the messages that waited.
    case unused
    /// The service had nothing to do, or was stopped.
    case orderly
}
