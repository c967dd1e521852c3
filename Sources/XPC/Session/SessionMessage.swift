import Ports

/// The ids of the messages of sessions.
enum SessionMessage: UInt32, CaseIterable {
    /// To a listener: asks for a session. See ``Hello``.
    case hello = 0x5850_4300
    /// To a session: a message, with or without a reply.
    case message
    /// As `message`: its sender blocks until the reply.
    case sync
    /// To a session: the last message. The text is the reason.
    case end

    private var kind: RequestKind {
        switch self {
        case .hello: RequestKind(name: "XPC session")
        case .message, .sync: RequestKind(name: "XPC message")
        case .end: RequestKind(name: "XPC end")
        }
    }

    /// Names the messages for portctl.
    static func describe(at port: LocalMessagePort) {
        for message in allCases { port.setKind(message.kind, ofRequests: message.rawValue) }
    }
}
