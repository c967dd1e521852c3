// Files for macOS have these names by `import XPC` alone.
@_exported import Dispatch
@_exported import Glibc

// For `PortRuntime.shared.setReplyLimit(_:)`, which errors name.
@_exported import class Ports.PortRuntime
// The process that sent a message.
@_exported import struct Ports.SenderCredentials
