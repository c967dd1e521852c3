import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops

/// Kills the process groups of workers when this process has ended, however it has ended.
///
/// The kernel kills the workers themselves, and knows nothing of what they have started. So a small process waits for the
/// end of this one, and has the list of the groups. It is a shell, which is there on any system.
final class GroupGuard: Sendable {
    static let shared = GroupGuard()

    private struct State {
        /// The groups of workers that run.
        var groups: Set<pid_t> = []
        /// The socket to the guard; nil before the first group, and where no guard can be started.
        var socket: Int32?
        /// The bytes that the guard has not read yet, because it is late.
        var unsent: [UInt8] = []
        var willRetry = false
    }

    private let state = Lock(State())

    /// The end of the standard input is this process's end.
    private static let script = """
        trap '' HUP INT QUIT TERM
        groups=
        while read -r change group; do
            kept=
            for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done
            groups=$kept
            [ "$change" = - ] || groups="$groups $group"
        done
        for group in $groups; do kill -KILL "-$group"; done
        """

    func add(_ group: pid_t, _ housekeeping: Housekeeping) {
        tell("+", group, housekeeping) { $0.insert(group) }
    }

    /// The group has ended. Called before its number can be another's.
    func remove(_ group: pid_t, _ housekeeping: Housekeeping) {
        tell("-", group, housekeeping) { $0.remove(group) }
    }

    private func tell(
        _ change: String, _ group: pid_t, _ housekeeping: Housekeeping, _ update: (inout Set<pid_t>) -> Void
    ) {
        let isGuarded = state.withLock { state in
            update(&state.groups)
            state.unsent += Array("\(change) \(group)\n".utf8)
            return flush(&state, housekeeping)
        }
        if !isGuarded {
            log.warning("nobody ends what workers have started if this process is killed: /bin/sh does not run")
        }
    }

    /// - Returns: False when there are groups and no guard.
    private func flush(_ state: inout State, _ housekeeping: Housekeeping) -> Bool {
        for isFirst in [true, false] where !state.unsent.isEmpty {
            if state.socket == nil {
                guard !state.groups.isEmpty else { return true }
                state.socket = Self.start(housekeeping)
                // A new guard has an empty list.
                state.unsent = state.groups.flatMap { Array("+ \($0)\n".utf8) }
            }
            guard let socket = state.socket else { return false }
            let count = send(socket, state.unsent, state.unsent.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            if count >= 0 {
                state.unsent.removeFirst(count)
                if state.unsent.isEmpty { return true }
            }
            if count >= 0 || errno == EAGAIN || errno == EINTR {
                retry(&state, housekeeping)
                return true
            }
            // Somebody has ended the guard.
            close(socket)
            state.socket = nil
            if !isFirst { return false }
        }
        return true
    }

    private func retry(_ state: inout State, _ housekeeping: Housekeeping) {
        if exchange(&state.willRetry, with: true) { return }
        housekeeping.perform(after: .milliseconds(100)) { [self] in
            _ = self.state.withLock { state in
                state.willRetry = false
                return flush(&state, housekeeping)
            }
        }
    }

    /// - Returns: The socket to the guard.
    private static func start(_ housekeeping: Housekeeping) -> Int32? {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            return nil
        }
        defer { close(ends[1]) }
        var shell = WorkerProcess.Configuration(
            "/bin/sh", ["-c", script, "ports-guard"], environment: .custom([:]), workingDirectory: "/",
            standardInput: .descriptor(ends[1]), standardOutput: .discard, standardError: .discard)
        shell.processGroup = .ownSession
        do {
            let pid = try shell.spawn(adding: [:])
            try housekeeping.add(ThreadRunLoop.Source1.child(pid) { _ in })
            return ends[0]
        } catch {
            close(ends[0])
            return nil
        }
    }
}
