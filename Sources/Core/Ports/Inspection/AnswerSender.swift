import RunLoops

/// The way of answers to the process that has asked a question. It ends with its last release.
final class AnswerSender: Sendable {
    let asker: SendChannel
    private let ended: @Sendable () -> Void

    init(to asker: SendChannel, ended: @escaping @Sendable () -> Void) {
        (self.asker, self.ended) = (asker, ended)
    }

    deinit { ended() }

    /// Sends an answer without a value, and without waiting.
    func send(_ kind: AnswerKind) { send(kind, []) { _ in } }

    /// Sends a value, without waiting. `sent` is called once, with false when the asker has not taken the value in time.
    func send(_ value: some Encodable, sent: @escaping @Sendable (Bool) -> Void = { _ in }) {
        send(.value, BoundedCoding.encode(value), sent: sent)
    }

    private func send(_ kind: AnswerKind, _ bytes: [UInt8], sent: @escaping @Sendable (Bool) -> Void) {
        do throws(PortError) {
            try asker.post(message(kind, bytes), within: .seconds(10)) { error in
                withExtendedLifetime(self) { sent(error == nil) }
            }
        } catch {
            sent(false)
        }
    }

    private func message(_ kind: AnswerKind, _ bytes: [UInt8]) throws(PortError) -> OutgoingMessage {
        let header = FrameHeader(id: kind.rawValue, count: 1)
        let size = try asker.check(size: header.componentsOffset + bytes.count)
        if asker.isLocal {
            return .local(
                LocalMessage(
                    kind: .message, id: header.id, request: 0, components: [.bytes(bytes)], replyRight: nil, size: size),
                nil)
        }
        var frame = try Frame(size: Int(size))
        frame.withUnsafeMutableBytes { target in
            header.write(to: target)
            target.setLittle(UInt32(bytes.count), at: header.sizesOffset)
            UnsafeMutableRawBufferPointer(rebasing: target[header.componentsOffset...]).copyBytes(from: bytes)
        }
        return .frame(OutgoingFrame(frame))
    }
}
