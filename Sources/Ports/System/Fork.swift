import CRunLoopShims
import RunLoops

/// A forked child inherits the ports' memory, and none of the threads that serve it. There every use of a port throws.
enum Fork {
    /// Whether this process is a forked child of the one that used the library.
    static var isChild: Bool { crl_is_forked() }

    static func check() throws(PortError) {
        if isChild {
            throw .unavailable(reason: "this process is a fork of the one that used them; use exec, or fork earlier")
        }
    }
}

extension Lock where Value: ~Copyable {
    /// Does nothing in a forked child and returns nil: another thread of the parent may have held the lock at the fork.
    borrowing func withLockUnlessForked<Result>(_ body: (inout sending Value) -> sending Result) -> sending Result? {
        Fork.isChild ? nil : withLock(body)
    }
}
