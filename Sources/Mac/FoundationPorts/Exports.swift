// A file that uses ports on macOS imports Foundation, which exports CoreFoundation there, and with it CFMessagePort.
@_exported import CoreFoundationPorts

// On macOS, Foundation has a class of this name, for the sake of its `systemDefault()`.
@_exported import class Ports.PortNameServer
// For `PortRuntime.shared.setReplyLimit(_:)`, which errors name.
@_exported import class Ports.PortRuntime
// For `ThreadRunLoop.main.serveFoundation()`.
@_exported import class RunLoops.ThreadRunLoop
