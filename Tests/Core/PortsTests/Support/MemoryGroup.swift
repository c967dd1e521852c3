import Foundation
import Glibc
import TestSupport
import Testing

/// A memory cgroup, for processes that get no more memory than it has. Only root can make one, and not everywhere.
final class MemoryGroup {
    private let path: String
    private static let isUnified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0

    static let canBeMade = (try? MemoryGroup(mebibytes: 64)) != nil
    static let canRefuse = (try? MemoryGroup(mebibytes: 64, kills: false)) != nil

    /// - Parameter kills: False when the kernel is to refuse calls the memory in place of killing, which only version 1 of
    ///   cgroups lets it do.
    init(mebibytes: Int, kills: Bool = true) throws {
        let folder = "/sys/fs/cgroup/" + (Self.isUnified ? "" : "memory/")
        path = "\(folder)swift-ports-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        guard mkdir(path, 0o700) == 0 else { throw Errno() }
        try allow(mebibytes: mebibytes)
        if Self.isUnified { try? write("0", to: "memory.swap.max") }
        if !kills { try write("1", to: "memory.oom_control") }
    }

    private struct Errno: Error { let number = errno }

    deinit { waitUntil { rmdir(path) == 0 || errno != EBUSY } }

    func allow(mebibytes: Int) throws {
        try write("\(mebibytes << 20)", to: Self.isUnified ? "memory.max" : "memory.limit_in_bytes")
    }

    private func write(_ text: String, to file: String) throws {
        let descriptor = open("\(path)/\(file)", O_WRONLY | O_CLOEXEC)
        defer { close(descriptor) }
        guard Glibc.write(descriptor, text, text.utf8.count) > 0 else { throw Errno() }
    }

    /// The file that lists the group's processes.
    var processes: String { "\(path)/cgroup.procs" }

    /// A command that runs a program in the group.
    var wrapper: [String] { ["/bin/sh", "-c", "echo $$ >'\(processes)' && exec \"$@\"", "sh"] }
}
