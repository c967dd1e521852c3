import CRunLoopShims
import RunLoopLocks

/// A forked child inherits the memory of ports, but none of their threads. In the child every use of a port throws.
enum Fork {
    static var isChild: Bool { crl_is_forked() }

    static func check() throws(PortError) {
        if isChild {
            throw .unavailable(reason: "this process is a fork of the one that used them; call exec, or fork earlier")
        }
    }
}

extension Lock where Value: ~Copyable {
    /// Returns nil in a forked child without locking: another thread of the parent may have held the lock at the fork.
    borrowing func withLockUnlessForked<Result>(_ body: (inout sending Value) -> sending Result) -> sending Result? {
        Fork.isChild ? nil : withLock(body)
    }
}
