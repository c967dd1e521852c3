import CAcceptGuard
import Glibc
import RunLoops

/// Refuses connections before libzmq accepts them: libzmq ends the process when a connection comes in and no descriptor
/// is left.
enum AcceptGuard {
    /// So many descriptors stay free: below that, no connection is let in, and no port is made.
    static let reserve = 64

    /// Once a process.
    static let begin: Void = cag_begin(Int32(reserve)) { pid, uid, reason in
        // On libzmq's own thread.
        let text = text(reason)
        log.warning(about: .process(pid), once: text, "refused process \(pid) of user \(uid): it \(text)")
    }

    /// Lets a listening socket accept at most so many connections, and only of this user.
    static func protect(_ descriptor: Int32, most: Int) {
        _ = begin
        if cag_guard(descriptor, Int32(most)) && cag_is_in_force() { return }
        log.warning(
            once: "unguarded",
            "ports of this process are not safe from connections that come in when no descriptor is left")
    }

    private static func text(_ reason: cag_reason) -> String {
        switch reason {
        case cag_another_user: "is another user's"
        case cag_one_too_many: "is one too many"
        default: "finds no descriptor left"
        }
    }

    /// Throws when only the reserve is left.
    static func checkReserve() throws(PortError) {
        let lowestFree = fcntl(0, F_DUPFD_CLOEXEC, 0)
        if lowestFree >= 0 { close(lowestFree) }
        let limit = Int(clamping: Descriptor.limit)
        let isExhausted = lowestFree < 0 ? errno == EMFILE : Int(lowestFree) >= limit - reserve
        if isExhausted { throw .outOfDescriptors(limit: limit) }
    }
}
