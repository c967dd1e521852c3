@preconcurrency import CoreFoundation
import Ports

extension MessagePortBody {
    /// The remote port of a name: a new one, or the one that was made before.
    static func makeRemote(_ allocator: CFAllocator?, _ name: CFString) -> CFMessagePort? {
        let text = String(portName: name)
        if let existing = MessagePortNames.remote.existing(text) { return existing }
        let remote = logged("CFMessagePortCreateRemote", unless: \.isNameNotFound) { () throws(PortError) in
            try RemoteMessagePort(name: text)
        }
        guard let remote else { return nil }
        let body = MessagePortBody(.remote(remote), name: text.cfString)
        guard let instance = MessagePortBody.objects.makeInstance(allocator, body) else { return nil }
        // Another thread may have been faster.
        return MessagePortNames.remote.insert(text, body) ?? instance
    }
}
