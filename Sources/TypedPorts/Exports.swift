// Who asks and answers typed requests catches PortError, and names ports.
@_exported import Ports
