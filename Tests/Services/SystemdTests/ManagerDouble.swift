import CRunLoopShims
import Glibc
import RunLoops
import TestSupport

/// Stands for a service manager: a socket that receives notifications.
final class ManagerDouble: Sendable {
    /// One datagram. Its descriptors are closed with it.
    final class Datagram: Sendable {
        let lines: [String]
        let descriptors: [Int32]

        init(_ lines: [String], _ descriptors: [Int32]) { (self.lines, self.descriptors) = (lines, descriptors) }
        deinit { for descriptor in descriptors { close(descriptor) } }
    }

    /// The value of `NOTIFY_SOCKET`.
    let address: String
    private let socket: Int32
    private let folder: TemporaryFolder?

    init(isAbstract: Bool = false) {
        let folder = isAbstract ? nil : TemporaryFolder()
        let address = folder.map { $0.path + "/notify" } ?? "@swift-ports-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        let socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var bound = sockaddr_un()
        bound.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &bound.sun_path) { path in
            path.copyBytes(from: address.utf8)
            if isAbstract { path[0] = 0 }
        }
        let size = 2 + address.utf8.count + (isAbstract ? 0 : 1)
        let error = withUnsafePointer(to: bound) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, socklen_t(size)) }
        }
        precondition(error == 0, "\(address) cannot be bound: \(errno)")
        (self.address, self.socket, self.folder) = (address, socket, folder)
    }

    deinit { close(socket) }

    /// The next datagram; nil when none comes in time.
    func next(before deadline: ContinuousClock.Instant = .patience) -> Datagram? {
        guard crl_poll(socket, -1, MonotonicInstant(deadline).timeout) > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 8192)
        var descriptors = [Int32](repeating: -1, count: Int(CRL_MOST_DESCRIPTORS))
        var count: Int32 = 0
        let size = crl_receive_packet(socket, &bytes, bytes.count, &descriptors, Int32(descriptors.count), &count)
        guard size >= 0 else { return nil }
        let text = String(decoding: bytes.prefix(size), as: UTF8.self)
        return Datagram(
            text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init),
            Array(descriptors.prefix(Int(count))))
    }

    /// The next datagram that is no mere sign of life.
    func nextNews() -> Datagram? {
        while let datagram = next() { if datagram.lines != ["WATCHDOG=1"] { return datagram } }
        return nil
    }

    /// Whether a datagram with a line comes.
    func receives(_ isWanted: (String) -> Bool) -> Bool {
        let deadline = ContinuousClock.Instant.patience
        while let datagram = next(before: deadline) { if datagram.lines.contains(where: isWanted) { return true } }
        return false
    }

    /// Whether the signs of life end: none comes for a time.
    func losesSigns(for time: Duration) -> Bool {
        let deadline = ContinuousClock.Instant.patience
        var last = ContinuousClock.now
        while !deadline.hasPassed {
            guard let datagram = next(before: last + time) else { return true }
            if datagram.lines.contains("WATCHDOG=1") { last = .now }
        }
        return false
    }
}
