import Foundation
import FoundationPorts

/// A local port in the thread's loop, and what comes to it.
final class Receiver: NSObject, PortDelegate {
    let localPort = MessagePort()
    private let handler: (PortMessage) -> Void

    init(_ handler: @escaping (PortMessage) -> Void) {
        self.handler = handler
        super.init()
        // Configure the object and add it to the current run loop.
        localPort.setDelegate(self)
        RunLoop.current.add(localPort, forMode: .default)
    }

    func handle(_ message: PortMessage) { handler(message) }
}

extension PortMessage {
    /// The text of the first component.
    var text: String { (components?.first as? Data).map { String(decoding: $0, as: UTF8.self) } ?? "" }
}
