import Glibc
import RunLoopLocks

/// Counts by their senders the messages that a port takes while its owner looks. The counts of sent messages do not tell
/// whose messages wait: a sender may have sent its many long ago, or have ended. A port takes from its senders in turn, so
/// each one with messages in the queue has some in the sample.
final class TakenSample: MessageTap {
    private struct State {
        /// The most messages, so that a look costs a busy port little.
        var left = 1000
        var counts: [pid_t: Int] = [:]
    }

    private let state = Lock(State())

    /// By the processes of the senders; 0 stands for those that the kernel does not name.
    var counts: [pid_t: Int] { state.withLock { $0.counts } }

    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int? {
        guard state.withLockUnlessForked({ $0.left > 0 }) == true else { return nil }
        let pid = message.sender?.pid ?? 0
        state.withLock { state in
            state.left -= 1
            state.counts[pid, default: 0] += 1
        }
        return nil
    }

    func handled(_ number: Int) {}
}
