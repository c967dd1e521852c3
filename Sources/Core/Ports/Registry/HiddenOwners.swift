import Glibc

/// A process that listens in a registry directory that is no longer at its path. Nobody finds the names of such a
/// process.
package struct HiddenOwner {
    let folder: String
    package let pid: Int32

    /// The kernel remembers the path at which a control socket was bound, also after the removal of the directory.
    package static func all(in directory: String) -> [HiddenOwner] {
        let listening = lines(of: "/proc/net/unix").compactMap { line -> (folder: String, inode: Substring)? in
            // The fields are Num, RefCount, Protocol, Flags (00010000 for a listener), Type, St, Inode and Path.
            let fields = line.split(separator: " ", maxSplits: 7)
            guard fields.count == 8, fields[3] == "00010000", fields[7].hasPrefix(directory + "/") else { return nil }
            let path = fields[7].dropFirst(directory.count + 1).split(separator: "/")
            guard path.count == 2, path[1] == "b" || path[1] == "c" else { return nil }
            return ("\(directory)/\(path[0])", fields[6])
        }
        let hidden = listening.filter { access($0.folder, F_OK) != 0 }
        if hidden.isEmpty { return [] }
        let owners = owners(ofSockets: Set(hidden.map(\.inode)))
        return hidden.compactMap { listener in
            owners[listener.inode].flatMap { pid in
                hasOwnMounts(pid) ? HiddenOwner(folder: listener.folder, pid: pid) : nil
            }
        }
    }

    /// Whether the process has the same mounts as this one. In a container, the same path may lead to another
    /// directory.
    private static func hasOwnMounts(_ pid: Int32) -> Bool {
        let own = ProcessStatus.target(ofLink: "/proc/self/ns/mnt")
        return own != nil && ProcessStatus.target(ofLink: "/proc/\(pid)/ns/mnt") == own
    }

    private static func owners(ofSockets inodes: Set<Substring>) -> [Substring: Int32] {
        var owners: [Substring: Int32] = [:]
        for pid in (Folder.files(in: "/proc") ?? []).compactMap({ Int32($0) }) {
            for file in Folder.files(in: "/proc/\(pid)/fd") ?? [] {
                guard let target = ProcessStatus.target(ofLink: "/proc/\(pid)/fd/\(file)"), target.hasPrefix("socket:[")
                else { continue }
                let inode = target.dropFirst(8).dropLast()
                if inodes.contains(inode) { owners[inode] = pid }
            }
        }
        return owners
    }

    private static func lines(of path: String) -> [Substring] {
        guard let file = fopen(path, "re") else { return [] }
        defer { fclose(file) }
        var (text, buffer) = ([] as [UInt8], [UInt8](repeating: 0, count: 64 << 10))
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { text += buffer[..<count] }
        return String(decoding: text, as: UTF8.self).split(separator: "\n")
    }
}
