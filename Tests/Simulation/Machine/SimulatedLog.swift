import Glibc
import Logging

/// The library's log. Its lines are made for some seeds, and printed only when each call is told.
struct SimulatedLog: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level
    let isPrinted: Bool

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { if isPrinted { print("    \(event.level): \(event.message)") } }
}
