import Glibc

/// What `wc` counts in a file.
struct Counts: Sendable, Equatable {
    var lines: UInt64 = 0
    var words: UInt64 = 0
    var bytes: UInt64 = 0

    static func + (left: Counts, right: Counts) -> Counts {
        Counts(
            lines: left.lines + right.lines,
            words: left.words + right.words,
            bytes: left.bytes + right.bytes
        )
    }

    static func += (left: inout Counts, right: Counts) {
        left = left + right
    }
}

extension Counts {
    /// Counts a regular file, and only that: whatever else bears this name by now is refused without waiting for it.
    static func ofFile(atPath path: [UInt8], chunkSize: Int = 256 * 1024) throws(FileError) -> Counts {
        do throws(IOError) {
            // Without O_NONBLOCK, to open a FIFO would be to wait for its writer.
            let file = try FileDescriptor(opening: path, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)
            var status = stat()
            try systemCall { fstat(file.rawValue, &status) }
            if status.isDirectory { throw .system(errno: EISDIR) }
            guard status.isRegularFile else { throw .notRegularFile }
            return try ofContents(of: file, chunkSize: chunkSize)
        } catch {
            throw FileError(path: path, reason: error)
        }
    }

    /// Reads to the end instead of trusting the size in the status, which is 0 for the files of `/proc`.
    private static func ofContents(of file: borrowing FileDescriptor, chunkSize: Int) throws(IOError) -> Counts {
        let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: chunkSize, alignment: 64)
        defer { chunk.deallocate() }
        let descriptor = file.rawValue
        var counter = ByteCounter()
        while true {
            let length = try systemCall { read(descriptor, chunk.baseAddress, chunk.count) }
            if length == 0 { return counter.counts }
            counter.consume(UnsafeRawBufferPointer(rebasing: chunk[..<length]))
        }
    }
}
