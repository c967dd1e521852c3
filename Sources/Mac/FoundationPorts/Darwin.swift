import Foundation

// Names of Darwin and Objective-C that the declarations of this module use.

// swift-format-ignore: AlwaysUseLowerCamelCase
/// The number of no port.
public let MACH_PORT_NULL: mach_port_t = 0

/// The Objective-C name of `Port`.
public typealias NSPort = Port
/// The Objective-C name of `PortMessage`.
public typealias NSPortMessage = PortMessage
/// The Objective-C name of ``MessagePort``.
public typealias NSMessagePort = MessagePort
/// The Objective-C name of ``MessagePortNameServer``.
public typealias NSMessagePortNameServer = MessagePortNameServer
/// The Objective-C name of ``SocketPortNameServer``.
public typealias NSSocketPortNameServer = SocketPortNameServer
/// The Objective-C name of ``DistributedNotificationCenter``.
public typealias NSDistributedNotificationCenter = DistributedNotificationCenter
