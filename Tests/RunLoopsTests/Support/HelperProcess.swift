import CRunLoopShims
import Glibc

/// Runs a helper program of the tests', which lies beside the test program.
///
/// - Parameter limit: A limit of the user's that it runs under: a name in `/proc/sys/user`, and how many.
/// - Returns: Its exit status, or the negated signal that ended it. What went wrong it says on the standard error.
func helper(
    _ command: String, of program: String = "RunLoopsTestHelper", under limit: (name: String, count: Int)? = nil
) -> Int32 {
    let program = beside(program)
    guard let limit else { return spawn([program, command]) }
    return spawn(limited(limit.name, limit.count, "exec \"$0\" \(command)") + [program])
}

/// Whether a process may be run under such a limit here: in a user namespace of its own, so that nobody else is.
func canLimit(_ name: String) -> Bool { spawn(limited(name, 5, "exit 0")) == 0 }

private func limited(_ name: String, _ count: Int, _ command: String) -> [String] {
    let script = "echo \(count) >/proc/sys/user/\(name) && \(command)"
    return ["/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh", "-c", script]
}

private func spawn(_ words: [String]) -> Int32 {
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var environment: [UnsafeMutablePointer<CChar>?] = [strdup("SWIFT_BACKTRACE=enable=no"), nil]
    defer { for string in arguments + environment { free(string) } }
    var (pid, status): (Int32, Int32) = (0, 0)
    guard crl_spawn(&pid, words[0], &arguments, &environment) == 0 else { return 127 }
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    return status & 0x7f == 0 ? (status >> 8) & 0xff : -(status & 0x7f)
}

private func beside(_ name: String) -> String {
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
    let path = String(decoding: buffer.prefix(max(count, 0)).map(UInt8.init(bitPattern:)), as: UTF8.self)
    return path[..<(path.lastIndex(of: "/") ?? path.startIndex)] + "/" + name
}
