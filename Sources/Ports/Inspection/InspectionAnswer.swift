import RunLoops
import ZeroMQ

/// The way to the process that has asked a question. It ends with the last release.
final class InspectionAnswer: Sendable {
    /// The id of a message to the asker.
    enum Status: UInt32 {
        /// More follows.
        case part
        case last
        case noPort
        /// As many ask the same as the asked process takes.
        case busy
    }

    let asker: SendChannel
    private let ended: @Sendable () -> Void

    init(to asker: SendChannel, ended: @escaping @Sendable () -> Void) {
        (self.asker, self.ended) = (asker, ended)
    }

    deinit { ended() }

    /// Sends the last part.
    func end(_ status: Status, _ bytes: [UInt8] = []) { send(status, bytes) { _ in } }

    /// Sends a part, without waiting. `sent` is called once, with false when the asker has not taken the part in time.
    func send(_ status: Status = .part, _ bytes: [UInt8], sent: @escaping @Sendable (Bool) -> Void) {
        do throws(PortError) {
            try asker.post(message(status, bytes), before: .now + .seconds(10)) { error in
                withExtendedLifetime(self) { sent(error == nil) }
            }
        } catch {
            sent(false)
        }
    }

    private func message(_ status: Status, _ bytes: [UInt8]) throws(PortError) -> OutgoingMessage {
        let header = WireHeader(id: status.rawValue, count: 1)
        let size = try asker.check(size: header.componentsOffset + bytes.count)
        if asker.isLocal {
            let components = [LocalMessage.Component.bytes(bytes)]
            return .local(
                LocalMessage(
                    kind: .message, id: header.id, request: 0, components: components, replyRight: nil, size: size))
        }
        var frame = try zeroMQ { () throws(ZeroMQError) in try Frame(count: Int(size)) }
        frame.withUnsafeMutableBytes { target in
            header.write(to: target)
            target.setLittle(UInt32(bytes.count), at: header.sizesOffset)
            UnsafeMutableRawBufferPointer(rebasing: target[header.componentsOffset...]).copyBytes(from: bytes)
        }
        return .frame(frame)
    }
}
