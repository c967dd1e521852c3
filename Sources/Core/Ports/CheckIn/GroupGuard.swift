import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops

/// Kills the process groups of workers when this process has ended, however it has ended.
///
/// The kernel kills the workers themselves, and knows nothing of what they have started. So a small process waits for the
/// end of this one, and has the list of the groups. It is a shell, which is there on any system. When somebody ends it,
/// another one is started with the same list.
final class GroupGuard: Sendable {
    static let shared = GroupGuard()

    private enum Guardian {
        /// The next group starts one.
        case none
        case running(pid_t, socket: Int32, since: MonotonicInstant)
        /// No guard can be started, or guards are ended as soon as they have started. The next one starts later, with the
        /// next change should the runtime have ended that would start it.
        case pausing(until: MonotonicInstant)
    }

    private struct State {
        /// The groups of workers that run.
        var groups: Set<pid_t> = []
        var guardian = Guardian.none
        var backOff = BackOff(.milliseconds(100)...(.seconds(10)))
        /// The bytes that the guard has not read yet, because it is late.
        var unsent: [UInt8] = []
        var willRetry = false
        /// Each warning comes once.
        var warnings: Set<String> = []

        /// The lines for a new guard.
        var list: [UInt8] { groups.flatMap { Array("+ \($0)\n".utf8) } }
    }

    private let state = Lock(State())

    /// The end of the standard input is this process's end. The name is for `ps` and `top`.
    private static let script = """
        printf ports-guard >/proc/self/comm
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
        _ sign: String, _ group: pid_t, _ housekeeping: Housekeeping, _ update: (inout Set<pid_t>) -> Void
    ) {
        change(housekeeping) { state in
            update(&state.groups)
            state.unsent += Array("\(sign) \(group)\n".utf8)
        }
    }

    /// The process with this number was the guard, and has ended.
    private func hasEnded(_ pid: pid_t, _ housekeeping: Housekeeping) {
        change(housekeeping) { state in
            if case .running(pid, _, _) = state.guardian { end(&state, housekeeping) }
        }
    }

    /// Changes the state, and tells the guard.
    private func change(_ housekeeping: Housekeeping, _ body: (inout State) -> Void) {
        let warnings = state.withLock { state in
            let former = state.warnings
            body(&state)
            flush(&state, housekeeping)
            return state.warnings.subtracting(former)
        }
        for warning in warnings { log.warning("\(warning)") }
    }

    private func flush(_ state: inout State, _ housekeeping: Housekeeping) {
        while !state.unsent.isEmpty {
            switch state.guardian {
            case .pausing(let end):
                if end.hasPassed { resume(&state) } else { state.unsent = [] }
            case .none:
                state.unsent = state.list
                if state.groups.isEmpty { return }
                if let (pid, socket, sent) = start(telling: state.list, housekeeping) {
                    state.guardian = .running(pid, socket: socket, since: .now)
                    state.unsent.removeFirst(sent)
                } else {
                    state.warnings.insert(
                        "nobody ends what workers have started if this process is killed: /bin/sh does not run")
                    pause(&state, for: max(state.backOff.next(), .milliseconds(100)), housekeeping)
                }
            case .running(_, let socket, _):
                let count = send(socket, state.unsent, state.unsent.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
                if count == state.unsent.count {
                    state.unsent = []
                } else if count >= 0 || errno == EAGAIN || errno == EINTR {
                    state.unsent.removeFirst(max(count, 0))
                    return retry(&state, housekeeping)
                } else {
                    end(&state, housekeeping)
                }
            }
        }
    }

    private func retry(_ state: inout State, _ housekeeping: Housekeeping) {
        if exchange(&state.willRetry, with: true) { return }
        housekeeping.perform(after: .milliseconds(100)) { [self] in
            change(housekeeping) { $0.willRetry = false }
        }
    }

    /// Somebody has ended the guard. The next one starts at once, unless guards are short-lived.
    private func end(_ state: inout State, _ housekeeping: Housekeeping) {
        guard case .running(_, let socket, let start) = state.guardian else { return }
        close(socket)
        (state.guardian, state.unsent) = (.none, state.list)
        state.warnings.insert(
            "ports-guard, which ends what workers have started if this process is killed, was ended itself, and is "
                + "started again")
        if MonotonicInstant.now - start > .seconds(10) { state.backOff.reset() }
        let time = state.backOff.next()
        if time > .zero { pause(&state, for: time, housekeeping) }
    }

    private func pause(_ state: inout State, for time: Duration, _ housekeeping: Housekeeping) {
        state.guardian = .pausing(until: .now + time)
        housekeeping.perform(after: time) { [self] in
            change(housekeeping) { state in
                // There may be another pause by now.
                if case .pausing(let end) = state.guardian, end.hasPassed { resume(&state) }
            }
        }
    }

    private func resume(_ state: inout State) {
        if case .pausing = state.guardian { (state.guardian, state.unsent) = (.none, state.list) }
    }

    /// Starts a guard that has a list from its start, because this process may end at any time.
    /// - Returns: The number of the guard, the socket to it, and the bytes of the list that it was sent.
    private func start(telling list: [UInt8], _ housekeeping: Housekeeping) -> (pid_t, socket: Int32, sent: Int)? {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            return nil
        }
        defer { close(ends[1]) }
        let sent = send(ends[0], list, list.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        // The script is a variable, because `ps` shows all arguments.
        var shell = WorkerProcess.Configuration(
            "/bin/sh", ["-c", "eval \"$PORTS_GUARD\"", "ports-guard"],
            environment: .custom(["PORTS_GUARD": Self.script]),
            workingDirectory: "/", standardInput: .descriptor(ends[1]), standardOutput: .discard,
            standardError: .discard)
        shell.processGroup = .ownSession
        do {
            let pid = try shell.spawn(adding: [:])
            do {
                try housekeeping.add(ThreadRunLoop.Source1.child(pid) { [self] _ in hasEnded(pid, housekeeping) })
            } catch {
                // It would take the end of the socket for this process's end, and kill the groups.
                kill(pid, SIGKILL)
                while waitpid(pid, nil, 0) < 0, errno == EINTR {}
                throw error
            }
            return (pid, ends[0], max(sent, 0))
        } catch {
            close(ends[0])
            return nil
        }
    }
}
