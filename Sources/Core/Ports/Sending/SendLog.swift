// Log lines about messages on their way out, at the level `trace`.

extension OutgoingFrame {
    var text: String {
        frame.withUnsafeBytes { try? FrameHeader(checking: $0) }?.text(size: frame.count) ?? "a malformed message"
    }
}

extension OutgoingMessage {
    var text: String {
        switch self {
        case .local(let message, _): message.header.text(message.componentCount, size: message.size)
        case .frame(let outgoing): outgoing.text
        }
    }
}

extension FrameHeader {
    fileprivate func text(size: Int) -> String { text(count, size: size) }
}

extension SendChannel {
    func logSent(_ text: String) {
        log.trace(isLocal ? "queued the \(text), for \(identity)" : "handed the \(text), to \(identity)")
    }

    func logWait(_ message: borrowing OutgoingMessage) {
        log.trace("the \(message.text), waits for a connection to \(identity) or for room there")
    }
}
