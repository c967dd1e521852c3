import CRunLoopShims
import Glibc

/// The few things done to a descriptor that is not an object of ours.
package enum Descriptor {
    /// How many descriptors the process may have: its soft limit.
    package static var limit: UInt64 {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return UInt64(limit.rlim_cur)
    }

    static func duplicate(_ descriptor: Int32) throws(RunLoopError) -> Int32 {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw .last("fcntl", descriptor: descriptor) }
        return copy
    }

    static func close(_ descriptor: Int32) { Glibc.close(descriptor) }

    /// Whether it is in error or hung up for good: still, after its handler was told, and with nothing left to read.
    static func isOver(_ descriptor: Int32) -> Bool {
        var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard Glibc.poll(&poll, 1, 0) == 1, poll.revents & Int16(POLLERR | POLLHUP) != 0 else { return false }
        var unread: Int32 = 0
        return poll.revents & Int16(POLLIN) == 0 || ioctl(descriptor, UInt(FIONREAD), &unread) != 0 || unread == 0
    }
}
