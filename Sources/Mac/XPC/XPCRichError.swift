import FoundationEssentials
import Ports

/// The reason why a session has ended, or why a message or its reply did not arrive. The corresponding C type is
/// `xpc_rich_error_t`.
public struct XPCRichError: Error, Sendable, Equatable {
    /// Whether the operation may succeed when it is tried again, with a new session if the session has ended: the peer
    /// ended or was restarted, has not registered its name yet, or had no room. The corresponding C function is
    /// `xpc_rich_error_can_retry`.
    public let canRetry: Bool

    /// A sentence that names the service and the remedy.
    let text: String

    init(_ text: String, canRetry: Bool = false) { (self.text, self.canRetry) = (text, canRetry) }

    init(_ error: PortError) {
        self.init(error.description, canRetry: error.mayPass)
    }

    /// An error of a message in a session that is open.
    /// - Parameter peer: The other end, in texts.
    init(_ error: any Error, inSessionWith peer: String) {
        guard let error = error as? PortError else {
            self.init(error)
            return
        }
        self.init(
            error.endText.map { "\(peer) \($0)" } ?? "the session with \(peer): \(error)", canRetry: error.mayPass)
    }

    init(_ error: any Error) {
        switch error {
        case let error as XPCRichError: self = error
        case let error as PortError: self.init(error)
        default: self.init("\(error)")
        }
    }
}

extension XPCRichError: CustomStringConvertible, CustomDebugStringConvertible, LocalizedError {
    /// The sentence. The corresponding C function is `xpc_rich_error_copy_description`.
    public var description: String { text }

    /// The sentence.
    public var debugDescription: String { text }

    /// The sentence, also as Foundation's `localizedDescription`.
    public var errorDescription: String? { text }
}

extension PortError {
    /// The reason when the other end's port is gone; nil for another error.
    fileprivate var endText: String? {
        switch self {
        case .isInvalid: "has ended, or has cancelled the session: make a new session"
        case .becameInvalid:
            "has ended, or has cancelled the session, and may have handled the message: make a new session"
        default: nil
        }
    }

    /// Whether the same call may succeed later.
    fileprivate var mayPass: Bool {
        switch self {
        case .sendTimedOut, .receiveTimedOut, .isInvalid, .becameInvalid, .ownQueueFull, .unanswered, .refused,
            .serverBusy, .cannotConnect, .connectionLost, .busy, .nameNotFound, .outOfDescriptors, .outOfSockets:
            true
        case .failed(_, let failure): !failure.isUnknownRequest
        default: false
        }
    }
}
