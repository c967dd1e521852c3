import Foundation
import Ports
import RunLoops

// Foundation's `localizedDescription` is the sentence of the error.

extension PortError: LocalizedError {
    /// The sentence that names the port and the remedy.
    public var errorDescription: String? { description }
}

extension RequestFailure: LocalizedError {
    /// The handler's words.
    public var errorDescription: String? { description }
}

extension CheckInError: LocalizedError {
    /// The sentence that names the worker.
    public var errorDescription: String? { description }
}

extension RunLoopError: LocalizedError {
    /// The sentence that names the call and the remedy.
    public var errorDescription: String? { description }
}
