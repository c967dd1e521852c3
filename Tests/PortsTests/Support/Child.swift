import CRunLoopShims
import Glibc
import RunLoops
import TestSupport

@testable import Ports

/// A process of the tests' helper program.
final class Child: Sendable {
    let pid: pid_t
    private let descriptor: Int32
    private let collected = Shared<Int32?>(nil)

    /// The helpers lie beside the test program.
    static let folder: String = {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let path = String(decoding: buffer.prefix(max(count, 0)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
    }()

    static let program = folder + "/PortsTestHelper"

    /// - Parameter wrapper: A command that runs the helper, given to it as its last words.
    init(_ arguments: String..., in sandbox: Sandbox, wrapper: [String] = []) {
        let environment =
            ["PORTS_DIRECTORY=\(sandbox.path)", "SWIFT_BACKTRACE=enable=no"]
            + sanitizerOptions.map { "\($0.key)=\($0.value)" }
        var argv: [UnsafeMutablePointer<CChar>?] = (wrapper + [Self.program] + arguments).map { strdup($0) } + [nil]
        var envp: [UnsafeMutablePointer<CChar>?] = environment.map { strdup($0) } + [nil]
        defer { for string in argv + envp { free(string) } }
        var pid: pid_t = 0
        let error = crl_spawn(&pid, wrapper.first ?? Self.program, &argv, &envp)
        precondition(error == 0, "\(Self.program) cannot be started: \(error)")
        self.pid = pid
        descriptor = crl_pidfd_open(pid)
    }

    deinit {
        kill()
        _ = wait()
        close(descriptor)
    }

    func kill() { signal(SIGKILL) }

    /// Stops it. The signal may take its time, and is waited for until none of its threads runs.
    func stop() {
        signal(SIGSTOP)
        var info = siginfo_t()
        while waitid(P_PID, id_t(pid), &info, WSTOPPED) != 0, errno == EINTR {}
    }

    func signal(_ signal: Int32) { _ = crl_pidfd_signal(descriptor, signal) }

    /// Its exit status, or the negated signal that ended it; nil when it has not ended in time.
    @discardableResult
    func wait(before deadline: MonotonicInstant = .patience) -> Int32? {
        if let status = collected.withLock({ $0 }) { return status }
        guard crl_poll(descriptor, -1, deadline.timeout) > 0 else { return nil }
        return collected.withLock { collected in
            var status: Int32 = 0
            if collected == nil, crl_pidfd_collect(descriptor, &status) == 1 { collected = status }
            return collected
        }
    }
}

/// The port that children report to.
struct Desk {
    let port: MachPort

    init(_ sandbox: Sandbox, queueLimit: Int = 1000) throws {
        port = try MachPort(queueLimit: queueLimit, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
    }

    /// Waits for a child's report, and gives the port to reach it at.
    func report() throws -> MachPort.SendRight {
        let message = try port.receive(before: .patience)
        guard message.id == 1, let right = message.replyPort else {
            throw PortError.unavailable(reason: "message \(message.id) is no report")
        }
        return right
    }
}
