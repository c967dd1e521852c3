import CoreFoundation
import CoreFoundationPorts
import Foundation
import Ports
import RunLoops

// Foundation's messages and this library's.

extension MachPort.Message {
    /// Nil when a component is neither data, nor a port of this library, nor an open file: the log says which.
    init?(msgid: Int, _ components: NSArray?, replyPort: MachPort.SendRight?) {
        var parts: [Component] = []
        for index in 0..<(components?.count ?? 0) {
            switch components?.element(at: index) {
            case let data as NSData:
                parts.append(.bytes(Array(UnsafeRawBufferPointer(start: data.bytes, count: data.length))))
            case let port as SendRightPort:
                guard let right = port.sendRight else {
                    Self.tell(index, "a port that can only reply")
                    return nil
                }
                parts.append(.port(right))
            case let file as FileHandle:
                // The handle stays its owner's.
                let descriptor = logged("the send of a PortMessage") { () throws(PortError) in
                    try MessageDescriptor(duplicating: file.fileDescriptor)
                }
                guard let descriptor else { return nil }
                parts.append(.descriptor(descriptor))
            case let other:
                Self.tell(index, other.map { "of the type \(type(of: $0))" } ?? "nothing")
                return nil
            }
        }
        self.init(id: UInt32(truncatingIfNeeded: msgid), parts, replyPort: replyPort)
    }

    private static func tell(_ index: Int, _ what: String) {
        log.warning("a PortMessage was not sent: component \(index) is \(what), and not Data, a port or a FileHandle")
    }
}

extension MachPort.SendRight {
    /// Sends a message. Returns whether it was sent.
    func send(
        _ msgid: Int, _ components: NSArray?, replyPort: MachPort.SendRight?, until deadline: MonotonicInstant
    ) -> Bool {
        // Most messages have one component of data, which is copied once.
        if let components, components.count == 1, let data = components.element(at: 0) as? NSData {
            return withExtendedLifetime(data) {
                let bytes = UnsafeRawBufferPointer(start: data.bytes, count: data.length).bytes
                let id = UInt32(truncatingIfNeeded: msgid)
                return isSent { () throws(PortError) in
                    try send(id: id, bytes: bytes, replyPort: replyPort, until: deadline)
                }
            }
        }
        guard let message = MachPort.Message(msgid: msgid, components, replyPort: replyPort) else { return false }
        return isSent { () throws(PortError) in try send(message, until: deadline) }
    }

    /// As on macOS, a timeout is for the caller to see.
    private func isSent(_ send: () throws(PortError) -> Void) -> Bool {
        logged("the send of a PortMessage", unless: \.isExpectedOfSend, send) != nil
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

extension MachPort.Message {
    /// The open file in a component. A handle of -1 stands for a file that has not come.
    fileprivate func file(ofComponent index: Int) -> FileHandle? {
        descriptor(ofComponent: index).map { descriptor in
            FileHandle(fileDescriptor: (try? descriptor.take()) ?? -1, closeOnDealloc: true)
        }
    }
}

extension PortMessage {
    /// A received message.
    convenience init(_ message: MachPort.Message, _ replyRight: ReplyRight?, to port: SendRightPort) {
        let sendPort = replyRight.map(ReplyPort.init) ?? message.replyPort.map(port.object)
        let components: [AnyObject] = (0..<message.componentCount).map { index in
            let data = message.withBytes(ofComponent: index) { bytes in
                bytes.withUnsafeBytes { NSData(bytes: $0.baseAddress, length: $0.count) }
            }
            return data ?? message.port(ofComponent: index).map(port.object) ?? message.file(ofComponent: index)
                ?? NSData()
        }
        self.init(sendPort: sendPort, receivePort: port, components: components)
        msgid = message.id
    }

    /// Makes a message of components of any type, as on macOS, where Foundation here takes objects alone. A component is
    /// data, a port, or a `FileHandle`, whose file the receiver gets as a handle of its own.
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
