import CoreFoundationPorts
import Foundation
import Ports

/// Names for ports in Foundation's loops, which all processes of the user share: those of this library's name server. The
/// corresponding class is NSMessagePortNameServer.
open class MessagePortNameServer: NSObject, @unchecked Sendable {
    // Sound: a constant.
    private let names: PortNameServer

    /// Makes a name server with another registry directory than ``sharedInstance()`` has.
    public init(_ nameServer: PortNameServer) { names = nameServer }

    private static let shared = MessagePortNameServer(.shared)

    /// The name server of the default registry directory.
    open class func sharedInstance() -> MessagePortNameServer { shared }

    /// Gives a name to a port of this process, which may have several.
    /// - Returns: False when the port cannot receive, somebody has the name, or the registry has failed.
    @discardableResult
    open func registerPort(_ port: Port, name: String) -> Bool {
        guard let end = (port as? SendRightPort)?.end else { return false }
        return logged("registerPort") { () throws(PortError) in try names.register(end.machPort, name: name) } != nil
    }

    /// As ``registerPort(_:name:)``, by its name on macOS.
    @discardableResult
    open func register(_ port: Port, name: String) -> Bool { registerPort(port, name: name) }

    /// Finds the port of a name; nil when nobody has the name, or its owner does not answer within five seconds.
    open func port(forName name: String) -> Port? {
        right(forName: name).map { PortObjects.shared.object(for: $0, orMake: makePort) }
    }

    /// Finds the port of a name, on this host only: nil, an empty string, or its name.
    open func port(forName name: String, host: String?) -> Port? {
        isHere(host) ? port(forName: name) : nil
    }

    /// Takes a name from a port of this process.
    /// - Returns: False when no port of this process has the name.
    @discardableResult
    open func removePort(forName name: String) -> Bool {
        guard let right = right(forName: name), let end = PortObjects.shared.existing(right.id)?.end else {
            return false
        }
        return logged("removePort") { () throws(PortError) in try names.remove(end.machPort, name: name) } != nil
    }

    private func right(forName name: String) -> MachPort.SendRight? {
        logged("port(forName:)", unless: \.isNameNotFound) { () throws(PortError) in try names.port(forName: name) }
    }

    fileprivate func makePort(_ right: MachPort.SendRight) -> SendRightPort { MessagePort(nil, right) }
}

/// Whether a host of a look-up is this one.
func isHere(_ host: String?) -> Bool {
    ["", "*", "localhost", ProcessInfo.processInfo.hostName].contains(host ?? "")
}

/// The same names for an ``NSMachPort``. The corresponding class is NSMachBootstrapServer.
open class NSMachBootstrapServer: MessagePortNameServer, @unchecked Sendable {
    private static let shared = NSMachBootstrapServer(.shared)

    /// The name server of the default registry directory.
    open override class func sharedInstance() -> NSMachBootstrapServer { shared }

    /// Takes a name for a service of this process, and returns the port at which the service receives. On macOS, launchd
    /// keeps the port for its service; here, the port is new.
    /// - Returns: Nil when somebody has the name, or the registry has failed.
    open func servicePort(withName name: String) -> Port? {
        let port = NSMachPort()
        return registerPort(port, name: name) ? port : nil
    }

    fileprivate override func makePort(_ right: MachPort.SendRight) -> SendRightPort { NSMachPort(nil, right) }
}

extension PortNameServer {
    /// The name server of Foundation's ports. The corresponding method is NSPortNameServer's `systemDefaultPortNameServer`.
    public static func systemDefault() -> MessagePortNameServer { .sharedInstance() }
}
