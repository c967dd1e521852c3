import Ports

/// Makes a call for a function whose result has no room for the reason of a failure: the log has it.
/// - Parameters:
///   - function: The function's name, for the log.
///   - isExpected: Whether the result alone says it all, as nil for a name that nobody has.
/// - Returns: Nil after an error.
package func logged<Result>(
    _ function: String, unless isExpected: (PortError) -> Bool = { _ in false },
    _ call: () throws(PortError) -> Result
) -> Result? {
    do throws(PortError) { return try call() } catch {
        if !isExpected(error) { log.warning("\(function) failed: \(error)") }
        return nil
    }
}

extension PortError {
    /// Whether a peer has no room, or is gone.
    package var isExpectedOfSend: Bool {
        switch self {
        case .sendTimedOut, .isInvalid, .becameInvalid: true
        default: false
        }
    }

    /// Whether nobody has the name.
    package var isNameNotFound: Bool { if case .nameNotFound = self { true } else { false } }
}
