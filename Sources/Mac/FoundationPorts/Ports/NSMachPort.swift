import Foundation
import Ports

/// A port for messages of threads and processes, in Foundation's `RunLoop`. The corresponding class is NSMachPort.
/// No Mach kernel is involved: the port is a `MachPort` of this library.
///
///     import Foundation
///
///     final class Receiver: PortDelegate {
///         func handle(_ message: PortMessage) { print("got message", message.msgid) }
///     }
///
///     let (receiver, port) = (Receiver(), NSMachPort())
///     port.setDelegate(receiver)
///     RunLoop.current.add(port, forMode: .default)
open class NSMachPort: SendRightPort, ReplaceableByExisting, @unchecked Sendable {
    // Sound: nothing is stored.
    /// Whether a Mach port's rights end with its object. Without a Mach kernel, the options have no effect.
    public struct Options: OptionSet, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// NSMachPortDeallocateSendRight.
        public static let deallocateSendRight = Options(rawValue: 1)
        /// NSMachPortDeallocateReceiveRight.
        public static let deallocateReceiveRight = Options(rawValue: 2)
    }

    /// Makes a port that can receive and send. When the process has no descriptor or thread left, the port is invalid.
    public init() {
        do throws(PortError) {
            let port = try MachPort()
            super.init(port, port.sendRight)
        } catch {
            NSLog("%@", "an NSMachPort could not be made: \(error)")
            super.init(nil, nil)
        }
        PortObjects.shared.add(self)
    }

    override init(_ end: (any ReceivingEnd)?, _ sendRight: MachPort.SendRight?) { super.init(end, sendRight) }

    /// The Foundation port of a port of this library, which ends with it. The delegate takes the place of the handler.
    public convenience init(_ port: MachPort) {
        self.init(PortObjects.shared.existingReceiver(port.id)) { NSMachPort(port, port.sendRight) }
    }

    /// The Foundation port of a right to send: if this process has an object for the port, that object.
    public convenience init(_ sendRight: MachPort.SendRight) {
        self.init(PortObjects.shared.existing(sendRight.id)) { NSMachPort(nil, sendRight) }
    }

    /// The port with a number that ``machPort`` or `CFMachPortGetPort` has returned in this process; an invalid one when there
    /// is none.
    public convenience init(machPort: UInt32) {
        let port = PortObjects.shared.object(numbered: machPort) { NSMachPort(nil, $0) }
        self.init(port) { NSMachPort(nil, nil) }
    }

    /// As ``init(machPort:)``. The options have no effect.
    public convenience init(machPort: UInt32, options: Options = []) { self.init(machPort: machPort) }

    /// As ``init(machPort:)``.
    open class func port(withMachPort machPort: UInt32) -> Port { NSMachPort(machPort: machPort) }

    /// As ``init(machPort:)``. The options have no effect.
    open class func port(withMachPort machPort: UInt32, options: Options = []) -> Port {
        NSMachPort(machPort: machPort)
    }

    /// A number for the port in this process, while somebody keeps this object; 0 when the port is invalid.
    /// A CFMachPort for the same port has the same number.
    open var machPort: UInt32 { PortObjects.shared.number(of: self) }
}

/// The delegate of an ``NSMachPort``. The corresponding protocol is NSMachPortDelegate.
public protocol NSMachPortDelegate: PortDelegate {
    /// Never called: `handle(_:)` gets all messages, also those of `mach_msg`.
    func handleMachMessage(_ msg: UnsafeMutableRawPointer)
}

extension NSMachPortDelegate {
    /// Does nothing.
    public func handleMachMessage(_ msg: UnsafeMutableRawPointer) {}
}

extension PortDelegate {
    /// Does nothing. As on macOS, a delegate may leave the method out.
    public func handle(_ message: PortMessage) {}
}
