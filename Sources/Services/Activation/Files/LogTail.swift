import Glibc

/// Reads the end of a log: its last lines, and then the lines that are written after them.
package struct LogTail {
    package struct Failure: Error, CustomStringConvertible {
        fileprivate let path: String
        fileprivate let error: Int32

        package var description: String { "\(path) cannot be read: \(String(cString: strerror(error)))" }
    }

    private let path: String
    /// The end of what was read.
    private var place: Int
    /// A line whose end has not been written yet.
    private var rest: [UInt8] = []

    /// - Parameter start: The place in the file before which nothing is read.
    package init(_ path: String, from start: Int = 0) {
        self.path = path
        place = start
    }

    /// The last line, if its end has not been written yet; empty otherwise.
    package var unfinished: String { String(decoding: rest, as: UTF8.self) }

    /// The last lines, of the last `mostBytes` bytes. A line whose begin is before them is left out.
    package mutating func last(_ count: Int, ofBytes mostBytes: Int) throws(Failure) -> [String] {
        let start = place
        let (bytes, from) = try read { max(start, $0 - mostBytes) }
        return lines(of: bytes, isCut: from > start).suffix(count)
    }

    /// The lines that were written since.
    package mutating func further() throws(Failure) -> [String] {
        // A file that is shorter is a new one.
        let bytes = rest + (try read { [place] in $0 < place ? 0 : place }.bytes)
        return lines(of: bytes)
    }

    /// The lines that have their ends, without the first one if its begin is missing. The last one is kept until it has its end.
    private mutating func lines(of bytes: [UInt8], isCut: Bool = false) -> [String] {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropFirst(
            isCut ? 1 : 0)
        rest = Array(lines.last ?? [])
        return lines.dropLast().map { String(decoding: $0, as: UTF8.self) }
    }

    /// - Parameter start: Where to begin, of a size.
    private mutating func read(from start: (Int) -> Int) throws(Failure) -> (bytes: [UInt8], from: Int) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        // Before the first start there is none.
        if descriptor < 0, errno == ENOENT { return ([], start(0)) }
        guard descriptor >= 0 else { throw Failure(path: path, error: errno) }
        defer { close(descriptor) }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        let from = start(size)
        let bytes = [UInt8](unsafeUninitializedCapacity: max(0, size - from)) { buffer, count in
            count = max(0, pread(descriptor, buffer.baseAddress, buffer.count, from))
        }
        place = from + bytes.count
        return (bytes, from)
    }
}
