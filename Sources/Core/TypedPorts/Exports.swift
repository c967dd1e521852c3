// A program with typed requests catches PortError and names ports.
@_exported import Ports
