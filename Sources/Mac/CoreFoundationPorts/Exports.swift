// The declarations that CoreFoundation's headers for Linux lack.
@_exported import CCoreFoundationPorts
// A file that uses CFMessagePort on macOS imports Foundation, which exports CoreFoundation there, and not here.
@_exported import CoreFoundation
