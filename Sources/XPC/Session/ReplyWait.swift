import Ports
import RunLoopLocks
import RunLoops

/// A thread that waits for the outcome of its request.
final class ReplyWait: Sendable {
    private let latch = Latch()
    private let result = Lock<Result<MachPort.Message, XPCRichError>?>(nil)

    func end(_ outcome: Result<MachPort.Message, XPCRichError>) {
        result.withLock { $0 = outcome }
        latch.open()
    }

    /// Blocks until the outcome. The session ends each request, at the latest with itself.
    func outcome() -> Result<MachPort.Message, XPCRichError> {
        while true {
            _ = latch.wait(until: .distantFuture)
            if let outcome = result.withLock({ $0 }) { return outcome }
        }
    }
}
