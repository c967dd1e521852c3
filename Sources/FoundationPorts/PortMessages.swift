import CoreFoundation
import Foundation
import Ports

// Foundation's messages and this library's.

extension MachPort.Message {
    /// Nil when a component is neither data nor a port of this library, or the port for the answer is a stranger.
    init?(msgid: Int, _ components: NSArray?, from receivePort: Port?) {
        var parts: [Component] = []
        for index in 0..<(components?.count ?? 0) {
            switch components?.element(at: index) {
            case let data as NSData:
                parts.append(.bytes(Array(UnsafeRawBufferPointer(start: data.bytes, count: data.length))))
            case let port as SendRightPort:
                guard let right = port.sendRight else { return nil }
                parts.append(.port(right))
            default: return nil
            }
        }
        let replyPort = (receivePort as? SendRightPort)?.sendRight
        guard receivePort == nil || replyPort != nil else { return nil }
        self.init(id: UInt32(truncatingIfNeeded: msgid), parts, replyPort: replyPort)
    }
}

extension NSArray {
    /// The object itself. NSArray's own methods make a `Data` of an NSData, and that takes longer than the message.
    fileprivate func element(at index: Int) -> AnyObject? {
        // An NSArray is a CFArray, for which Swift has no cast on Linux.
        CFArrayGetValueAtIndex(unsafeBitCast(self, to: CFArray.self), index).map {
            Unmanaged<AnyObject>.fromOpaque($0).takeUnretainedValue()
        }
    }
}

extension PortMessage {
    /// A received message.
    convenience init(_ message: MachPort.Message, _ replyRight: ReplyRight?, to port: SendRightPort) {
        let sendPort = replyRight.map(ReplyPort.init) ?? message.replyPort.map(port.object)
        let components: [AnyObject] = message.components.map { component in
            switch component {
            case .bytes(let bytes): NSData(bytes: bytes, length: bytes.count)
            case .port(let right): port.object(for: right)
            }
        }
        self.init(sendPort: sendPort, receivePort: port, components: components)
        msgid = message.id
    }

    /// Makes a message of components of any type, as on macOS, where Foundation here takes objects alone.
    public convenience init(sendPort: Port?, receivePort replyPort: Port?, components: [Any]?) {
        self.init(sendPort: sendPort, receivePort: replyPort, components: components?.map { $0 as AnyObject })
    }

    /// Makes a message, by the initializer's name on macOS.
    public convenience init(send sendPort: Port?, receive replyPort: Port?, components: [Any]?) {
        self.init(sendPort: sendPort, receivePort: replyPort, components: components)
    }
}

extension SendRightPort {
    /// The object of a port whose right came in a message of this port; a new one is of this port's kind.
    fileprivate func object(for right: MachPort.SendRight) -> Port {
        PortObjects.shared.object(for: right) { self is MessagePort ? MessagePort(nil, $0) : NSMachPort(nil, $0) }
    }
}
