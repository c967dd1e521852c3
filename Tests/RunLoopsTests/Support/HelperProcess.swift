import CRunLoopShims
import Glibc
import TestSupport

/// Runs a helper program of the tests', which lies beside the test program.
///
/// - Parameter world: A world of its own that it runs in.
/// - Returns: Its exit status, or the negated signal that ended it. What went wrong it says on the standard error.
func helper(_ command: String, of program: String = "RunLoopsTestHelper", in world: World? = nil) -> Int32 {
    let program = beside(program)
    return spawn(world.map { $0.words("exec \"$0\" \(command)") + [program] } ?? [program, command])
}

/// What a process can have for itself, where it may: nobody else notices.
struct World {
    /// A shell command that makes it.
    let made: String

    /// A limit of the user's: a name in `/proc/sys/user`, and how many.
    static func limit(_ name: String, _ count: Int) -> World { World(made: "echo \(count) >/proc/sys/user/\(name)") }

    /// A file system.
    static let mount = World(made: "mount -t tmpfs none /mnt")

    /// Whether it can be had on this machine.
    var isThere: Bool { spawn(words("exit 0")) == 0 }

    fileprivate func words(_ command: String) -> [String] {
        ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", "\(made) && \(command)"]
    }
}

private func spawn(_ words: [String]) -> Int32 {
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    let variables =
        ["SWIFT_BACKTRACE=enable=no", "PATH=/usr/bin:/bin"] + sanitizerOptions.map { "\($0.key)=\($0.value)" }
    var environment: [UnsafeMutablePointer<CChar>?] = variables.map { strdup($0) } + [nil]
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
