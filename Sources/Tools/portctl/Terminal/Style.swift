import Glibc

/// A way for words to stand out at a terminal.
enum Style: String {
    case error = "1;31", warning = "33", good = "32", quiet = "2", strong = "1"

    /// Whether the standard output is a terminal that shows colours, and its user wants them (no-color.org).
    static let isUsed: Bool = {
        let (terminal, refusal) = (value(of: "TERM") ?? "", value(of: "NO_COLOR") ?? "")
        return isatty(STDOUT_FILENO) == 1 && !["", "dumb"].contains(terminal) && refusal.isEmpty
    }()

    private static func value(of variable: String) -> String? { getenv(variable).map { String(cString: $0) } }

    /// The style of a service's state; nil for a service that is well.
    init?(state: String) {
        switch state {
        case "stuck", "unserved", "stopped", "silent", "unknown", "failed", "unusable": self = .error
        case "flooded", "slow": self = .warning
        case "busy": self = .strong
        default: return nil
        }
    }

    func callAsFunction(_ text: String, if isUsed: Bool = Style.isUsed) -> String {
        isUsed ? "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" : text
    }
}
