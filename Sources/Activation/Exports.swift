@_exported import TypedPorts
