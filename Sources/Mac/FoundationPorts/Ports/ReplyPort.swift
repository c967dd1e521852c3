import CoreFoundationPorts
import Foundation
import Ports
import RunLoopLocks

/// The port for the answer to a request of a `RemoteMessagePort`. The first message that is sent to the port is the
/// reply. Released unused, the port tells the asker that no reply follows.
final class ReplyPort: MessagePort, @unchecked Sendable {
    // Sound: a constant.
    private let right: Lock<ReplyRight?>

    init(_ right: ReplyRight) {
        self.right = Lock(right)
        super.init(nil, nil)
    }

    override var isValid: Bool { right.withLock { $0 }?.isCancelled == false }

    override func invalidate() {
        // Released after the lock: the release sends.
        let right = right.withLock { $0.take() }
        guard right != nil else { return }
        NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }

    override func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        guard let message = MachPort.Message(msgid: msgID, components, replyPort: nil),
            let right = right.withLock({ $0.take() })
        else { return false }
        let sent: Void? = logged("the reply of a PortMessage", unless: \.isExpectedOfSend) { () throws(PortError) in
            try right.reply(with: message)
        }
        if sent != nil { return true }
        // Another reply may follow.
        self.right.withLock { $0 = right }
        return false
    }
}
