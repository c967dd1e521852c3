import CRunLoopShims
import Glibc

/// The kernel's word on the process at the other end of a local socket (SO_PEERCRED). Only this user's processes are
/// let in: here by control connections; at ports' sockets, `CAcceptGuard` and libzmq's peer filter do the same.
struct PeerCredentials {
    private(set) var pid: pid_t = 0
    private(set) var uid: uid_t = 0

    init?(of descriptor: Int32) { guard crl_peer_credentials(descriptor, &pid, &uid) else { return nil } }

    var isOwnUser: Bool { uid == geteuid() }
}
