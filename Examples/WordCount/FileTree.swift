import Glibc

/// The regular files at and below some paths: those which `find PATH... -type f` lists, spelled as it spells them.
///
/// Symbolic links are not followed. What cannot be looked at becomes an error, and the rest is still listed.
struct FileTree: Sendable {
    struct File: Sendable, Equatable {
        let path: [UInt8]
        let size: UInt64
    }

    /// In no particular order. A file reached from two of the paths is there twice.
    private(set) var files: [File] = []
    private(set) var errors: [FileError] = []

    /// Walks with a stack of its own and opens one directory at a time, so the depth of a tree costs only memory.
    init(at roots: [[UInt8]]) {
        for root in roots {
            var pending = [root]
            while let path = pending.popLast() {
                do throws(IOError) {
                    var status = stat()
                    try systemCall { lstat(path.cString, &status) }
                    if status.isRegularFile {
                        files.append(File(path: path, size: UInt64(clamping: status.st_size)))
                    } else if status.isDirectory {
                        try forEachEntry(ofDirectory: path) { name in pending.append(join(path, name)) }
                    } else if path == root {
                        // Asked for by name; inside a tree such things are simply not of interest.
                        throw .notRegularFile
                    }
                } catch {
                    errors.append(FileError(path: path, reason: error))
                }
            }
        }
    }
}

private let slash = UInt8(ascii: "/")

/// A directory's path is kept as it was given, and needs a slash only if it does not end in one.
private func join(_ directory: [UInt8], _ name: [UInt8]) -> [UInt8] {
    directory.last == slash ? directory + name : directory + [slash] + name
}

/// Passes on the names in a directory, without `.` and `..`. After an error those before it have been passed on.
private func forEachEntry(ofDirectory path: [UInt8], _ body: ([UInt8]) -> Void) throws(IOError) {
    let directory = try FileDescriptor(opening: path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    guard let stream = fdopendir(directory.rawValue) else { throw .system(errno: errno) }
    _ = directory.release()  // It is the stream's now.
    defer { closedir(stream) }

    while true {
        errno = 0  // The only way to tell an error from the end.
        guard let entry = readdir(stream) else {
            if errno != 0 { throw .system(errno: errno) }
            return
        }
        let name = name(of: entry)
        if name != [dot] && name != [dot, dot] { body(name) }
    }
}

private let dot = UInt8(ascii: ".")

/// Reads the name in place: an entry is shorter than the `dirent` declared, and must not be copied as one.
private func name(of entry: UnsafeMutablePointer<dirent>) -> [UInt8] {
    let start = UnsafeRawPointer(entry) + (MemoryLayout<dirent>.offset(of: \.d_name) ?? 0)
    return [UInt8](UnsafeRawBufferPointer(start: start, count: strlen(start.assumingMemoryBound(to: CChar.self))))
}
