import Ports

/// The ids of the messages of sessions.
enum SessionMessage: UInt32, CaseIterable {
    /// To a listener: asks for a session. See ``Hello``.
    case hello = 0x5850_4300
    /// To a session: a message, with or without a reply.
    case message
    /// As `message`: its sender blocks until the reply.
    case sync
    /// To a session: stands for a message that could not be sent, so that both ends count alike.
    case gap
    /// To a session: the last message. The text is the reason.
    case end
    /// As `message` and `sync`. The last component is the number of replies that the sender has sent before.
    case laterMessage
    case laterSync

    private var kind: RequestKind {
        switch self {
        case .hello: RequestKind(name: "XPC session")
        case .message, .sync, .laterMessage, .laterSync: RequestKind(name: "XPC message")
        case .gap: RequestKind(name: "XPC gap")
        case .end: RequestKind(name: "XPC end")
        }
    }

    /// Names the messages for portctl.
    static func describe(at port: LocalMessagePort) {
        for message in allCases { port.setKind(message.kind, ofRequests: message.rawValue) }
    }

    /// Whether the sender blocks until the reply.
    var isSync: Bool { self == .sync || self == .laterSync }

    /// Whether the last component is the number of replies that the sender has sent before.
    var hasReplies: Bool { self == .laterMessage || self == .laterSync }

    /// Adds the number of replies that were sent before a message. Zero adds nothing.
    static func setReplies(_ count: UInt32, of message: inout MachPort.Message) {
        guard count > 0 else { return }
        message.id = (message.id == sync.rawValue ? laterSync : laterMessage).rawValue
        message.components.append(.bytes(withUnsafeBytes(of: count.littleEndian, Array.init)))
    }

    /// The number of replies that were sent before a message.
    func replies(of message: MachPort.Message) -> UInt32 {
        guard hasReplies else { return 0 }
        let count: UInt32? = message.withBytes(ofComponent: message.componentCount - 1) { bytes in
            bytes.withUnsafeBytes { $0.suffix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) } }
        }
        return count ?? 0
    }
}
