import Glibc

/// Calls for descriptors in general.
package enum Descriptor {
    package static var limit: UInt64 { UInt64(rlimit(of: RLIMIT_NOFILE).rlim_cur) }

    package static func duplicate(_ descriptor: Int32) throws(RunLoopError) -> Int32 {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw .last("fcntl", descriptor: descriptor) }
        return copy
    }

    /// The first 4 KiB of a file, such as one in `/proc`; nil when it cannot be opened.
    package static func text(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let bytes = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
            count = max(read(descriptor, buffer.baseAddress, buffer.count), 0)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Stops the process, because a loop whose descriptors were closed would spin, or sleep for ever.
    static func wasClosed(_ descriptor: Int32, _ name: String) -> Never {
        contractBroken(
            "\(name), number \(descriptor), was closed behind the loop's back (\(String(cString: strerror(errno)))): some "
                + "code of this process closes a descriptor that it does not own, or closes one twice")
    }

    enum End {
        case reading
        case everything
    }

    /// The end that a descriptor would report for ever; nil while there are bytes to read for a source that reads.
    static func end(of descriptor: Int32, waitedFor interest: RunLoopReadiness) -> End? {
        // poll and epoll use the same bits.
        let asked = RunLoopReadiness([.readable, .readHangUp])
        var poll = pollfd(fd: descriptor, events: Int16(asked.rawValue), revents: 0)
        guard Glibc.poll(&poll, 1, 0) == 1 else { return nil }
        let told = RunLoopReadiness(rawValue: UInt32(UInt16(bitPattern: poll.revents)))
        var unread: Int32 = 0
        if interest.contains(.readable), told.contains(.readable), ioctl(descriptor, UInt(FIONREAD), &unread) == 0,
            unread > 0
        {
            return nil
        }
        if !told.isDisjoint(with: [.error, .hangUp]) { return .everything }
        guard told.contains(.readHangUp), interest.contains(.readHangUp) else { return nil }
        return interest.contains(.writable) ? .reading : .everything
    }
}

extension rlimit {
    package init(of resource: __rlimit_resource) {
        self.init()
        getrlimit(__rlimit_resource_t(resource.rawValue), &self)
    }
}

/// The identity of a file, whatever its paths and descriptors are.
package struct FileIdentity: Equatable {
    private let device: dev_t
    private let number: ino_t

    package init(_ status: stat) { (device, number) = (status.st_dev, status.st_ino) }

    package init?(of descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }
}
