// A file that uses ports on macOS imports Foundation, which exports CoreFoundation there, and with it CFMessagePort.
@_exported import CoreFoundationPorts
