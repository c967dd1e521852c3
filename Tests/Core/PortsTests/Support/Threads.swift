import Glibc
import RunLoops

@testable import Ports

/// The port error that a body throws; nil when it throws none.
func portError(_ body: () throws -> Void) -> PortError? {
    do {
        try body()
        return nil
    } catch {
        return error as? PortError
    }
}

/// What a port error is called, without its details.
func kind(_ error: PortError?) -> String {
    error.map { String("\(Mirror(reflecting: $0).children.first?.label ?? "\($0)")") } ?? "none"
}

/// The kind of error that a body throws.
func errorKind(_ body: () throws -> Void) -> String { kind(portError(body)) }

extension MachPort.Message {
    /// The bytes of the first component.
    var bytes: [UInt8]? { withBytes { $0.withUnsafeBytes { Array($0) } } }
}

/// A thread whose loop serves a port.
func served(_ port: MachPort) throws -> RunLoopThread {
    let thread = try RunLoopThread()
    try port.schedule(in: thread.loop)
    return thread
}
