/// Why a service file cannot be used.
public struct ServiceFileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The path of the file; nil for a text that comes from none.
    public internal(set) var path: String?
    /// The line; nil when the whole file is meant.
    public let line: Int?
    /// The reason, with the remedy.
    public let reason: String

    init(_ line: Int? = nil, _ reason: String, in path: String? = nil) {
        (self.line, self.reason, self.path) = (line, reason, path)
    }

    /// The place and the reason.
    public var description: String {
        let place = [path, line.map { "line \($0)" }].compactMap { $0 }.joined(separator: ", ")
        return place.isEmpty ? reason : "\(place): \(reason)"
    }
}
