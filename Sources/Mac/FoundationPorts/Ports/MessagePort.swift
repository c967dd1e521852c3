import Foundation
import Ports

/// A port for messages of threads and processes, which ``MessagePortNameServer`` gives names, in Foundation's `RunLoop`.
/// The corresponding class is NSMessagePort.
///
///     import Foundation
///
///     final class Receiver: PortDelegate {
///         func handle(_ message: PortMessage) { print("got message", message.msgid) }
///     }
///
///     let (receiver, port) = (Receiver(), MessagePort())
///     port.setDelegate(receiver)
///     RunLoop.current.add(port, forMode: .default)
///     MessagePortNameServer.sharedInstance().registerPort(port, name: "com.example.service")
///
/// The port is a `LocalMessagePort` of this library, or the right to send to one. A `RemoteMessagePort` may send requests
/// to it: then the message's `sendPort` takes one message, the reply.
open class MessagePort: SendRightPort, ReplaceableByExisting, @unchecked Sendable {
    // Sound: nothing is stored.
    /// Makes a port that can receive and send. When the process has no descriptor or thread left, the port is invalid.
    public init() {
        do throws(PortError) {
            let port = try LocalMessagePort()
            super.init(port, port.sendRight)
        } catch {
            NSLog("%@", "a MessagePort could not be made: \(error)")
            super.init(nil, nil)
        }
        PortObjects.shared.add(self)
    }

    override init(_ end: (any ReceivingEnd)?, _ sendRight: MachPort.SendRight?) { super.init(end, sendRight) }

    /// The Foundation port of a port of this library, which ends with it. The delegate takes the place of the handler.
    public convenience init(_ port: LocalMessagePort) {
        self.init(PortObjects.shared.existingReceiver(port.sendRight.id)) { MessagePort(port, port.sendRight) }
    }

    /// The Foundation port of a right to send: if this process has an object for the port, that object.
    public convenience init(_ sendRight: MachPort.SendRight) {
        self.init(PortObjects.shared.existing(sendRight.id)) { MessagePort(nil, sendRight) }
    }
}
