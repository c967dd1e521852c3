import Glibc
import RunLoopLocks

/// Counts, by sender, the messages that a port takes during an observation. The counts of sent messages do not show whose
/// messages wait, because a sender may have sent many long ago, or have ended. A port takes from its senders in turn, so
/// each sender with messages in the queue has some in the sample.
final class TakenSample: MessageTap {
    private struct State {
        /// The number of messages that are still counted, so that an observation costs a busy port little.
        var left = 1000
        var counts: [pid_t: Int] = [:]
    }

    private let state = Lock(State())

    /// The number of messages by the sender's process; 0 stands for processes that the kernel does not name.
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
