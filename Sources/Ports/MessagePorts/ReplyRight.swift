import CRunLoopShims
import RunLoops
import Synchronization

/// The right to answer one request, once. Let go of without an answer, it tells the asker so at once.
public final class ReplyRight: Sendable {
    private let asker: MachPort.SendRight
    private let request: UInt64
    private let isUsed = Mutex(false)

    init?(_ frame: ReceivedFrame) {
        guard frame.header.kind == .request, let asker = frame.replyPort else { return nil }
        self.asker = asker
        request = frame.header.request
    }

    deinit {
        if !isUsed.withLock({ $0 }) { refuse() }
    }

    /// Sends the answer.
    ///
    /// - Parameters:
    ///   - bytes: The answer's data; nil for an answer without data.
    ///   - deadline: How long to wait for room at the asker's; a slow asker must not hold up a server.
    /// - Throws: ``PortError`` when it could not be sent: the right is used up all the same.
    public func reply(
        with bytes: [UInt8]? = nil, before deadline: MonotonicInstant = .now + .seconds(1)
    ) throws(PortError) {
        let wasUsed = isUsed.withLock { isUsed in
            defer { isUsed = true }
            return isUsed
        }
        precondition(!wasUsed, "a request is answered once")
        let components = bytes.map { [MachPort.Message.Component.bytes($0)] } ?? []
        do throws(PortError) {
            var frame = try Encoding.frame(
                MachPort.Message(components), kind: .reply, request: request, to: asker.channel)
            try asker.channel.send(&frame, before: deadline)
        } catch {
            refuse()
            throw error
        }
    }

    private func refuse() {
        // A fork's copy: the request is still the parent's.
        guard !crl_is_forked() else { return }
        let process = PortProcess.current
        if asker.channel.isLocal {
            process.replies.wasRefused(request, by: process.incarnation)
        } else {
            process.peers.tellUnanswered(request, to: asker.channel.id.incarnation)
        }
    }
}

extension ReceivedFrame {
    /// It will not be handled. A request's asker is told; anything else is gone.
    func refuse() { _ = ReplyRight(self) }
}
