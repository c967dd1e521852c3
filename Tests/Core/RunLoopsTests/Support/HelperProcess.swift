import RunLoops
import TestSupport

/// Runs a helper program of the tests', which lies beside the test program.
///
/// - Parameter world: A world of its own that it runs in.
/// - Returns: Its exit status, or the negated signal that ended it. What went wrong it says on the standard error.
func helper(_ command: String, of program: String = "RunLoopsTestHelper", in world: World? = nil) -> Int32 {
    let program = "\(Child.folder)/\(program)"
    return status(of: world.map { $0.words("exec \"$0\" \(command)") + [program] } ?? [program, command])
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
    var isThere: Bool { status(of: words("exit 0")) == 0 }

    fileprivate func words(_ command: String) -> [String] {
        ["/usr/bin/env", "unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", "\(made) && \(command)"]
    }
}

private func status(of words: [String]) -> Int32 { Child(words).wait(before: .now + .seconds(150)) ?? 127 }
