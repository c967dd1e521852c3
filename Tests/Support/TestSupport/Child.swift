import CRunLoopShims
import Glibc
import RunLoops

/// Keeps other processes to ZeroMQ, if these tests are kept to it.
private let carriers = getenv("PORTS_SHARED_MEMORY").map { ["PORTS_SHARED_MEMORY": String(cString: $0)] } ?? [:]

/// Starts the program that the first word is the path of. Its environment is what is given, and little else.
package func spawn(_ words: [String], environment: [String: String] = [:]) -> pid_t {
    let all = ["PATH": "/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"].merging(sanitizerOptions) { $1 }
        .merging(carriers) { $1 }.merging(environment) { $1 }
    let arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    let variables: [UnsafeMutablePointer<CChar>?] = all.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for string in arguments + variables { free(string) } }
    var pid: pid_t = 0
    var failed: UnsafePointer<CChar>?
    let error = arguments.withUnsafeBufferPointer { arguments in
        variables.withUnsafeBufferPointer { variables in
            var program = crl_program()
            program.path = UnsafePointer(arguments[0])
            (program.arguments, program.environment) = (arguments.baseAddress, variables.baseAddress)
            (program.standard, program.may_gain_privileges, program.cgroup) = ((-1, -1, -1), true, -1)
            return crl_spawn(&pid, &program, &failed)
        }
    }
    precondition(error == 0, "\(words[0]) cannot be started: \(error)")
    return pid
}

/// Another process of the tests, which is killed when nothing refers to it any more.
package final class Child: Sendable {
    package let pid: pid_t
    private let descriptor: Int32
    private let collected = Shared<Int32?>(nil)

    /// The folder of the test program, and of all others.
    package static let folder: String = {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let path = String(decoding: buffer.prefix(max(count, 0)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
    }()

    package init(_ words: [String], environment: [String: String] = [:]) {
        pid = spawn(words, environment: environment)
        descriptor = crl_pidfd_open(pid)
    }

    deinit {
        kill()
        wait()
        close(descriptor)
    }

    package func kill() { signal(SIGKILL) }

    /// Stops it. The signal may take its time, and is waited for until none of its threads runs.
    package func stop() { Self.stop(pid) }

    /// Stops a child of this process, as ``stop()`` does.
    package static func stop(_ pid: pid_t) {
        _ = Glibc.kill(pid, SIGSTOP)
        var info = siginfo_t()
        while waitid(P_PID, id_t(pid), &info, WSTOPPED) != 0, errno == EINTR {}
    }

    package func signal(_ signal: Int32) { _ = crl_pidfd_signal(descriptor, signal) }

    package var isRunning: Bool { wait(before: .distantPast) == nil }

    /// Its exit status, or the negated signal that ended it; nil when it has not ended in time.
    @discardableResult
    package func wait(before deadline: ContinuousClock.Instant = .patience) -> Int32? {
        if let status = collected.withLock({ $0 }) { return status }
        guard crl_poll(descriptor, -1, MonotonicInstant(deadline).timeout) > 0 else { return nil }
        return collected.withLock { collected in
            var status: Int32 = 0
            if collected == nil, crl_pidfd_collect(descriptor, &status) == 1 { collected = status }
            return collected
        }
    }
}
