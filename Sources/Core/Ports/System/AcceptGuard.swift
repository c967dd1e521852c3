import CAcceptGuard
import Glibc
import RunLoops

/// Refuses connections before libzmq accepts them, because libzmq aborts the process when its `accept` finds no
/// descriptor left.
enum AcceptGuard {
    static let begin: Void = cag_begin(Int32(DescriptorReserve.size)) { pid, uid, reason in
        // On libzmq's own thread.
        let text = text(reason)
        log.warning(about: .process(pid), once: text, "refused \(ProcessIdentity(pid: pid)) of user \(uid): \(text)")
    }

    /// Limits the number of connections of a listening socket, and refuses connections of other users.
    /// - Parameters:
    ///   - descriptor: The listening socket.
    ///   - most: The largest number of connections at a time.
    static func protect(_ descriptor: Int32, most: Int) {
        _ = begin
        _ = cag_guard(descriptor, Int32(most))
    }

    /// Protects a socket at which libzmq accepts.
    static func protectLibzmq(_ descriptor: Int32, most: Int) {
        protect(descriptor, most: most)
        if cag_is_in_force() { return }
        log.warning(
            once: "unguarded",
            "the library was loaded by a running program: a connection by ZeroMQ may end it when no descriptor is left")
    }

    private static func text(_ reason: cag_reason) -> String {
        switch reason {
        case cag_another_user: "it belongs to another user"
        case cag_one_too_many: "there are too many connections"
        default: "no descriptor is left"
        }
    }
}
