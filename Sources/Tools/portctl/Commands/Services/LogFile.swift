import Glibc

/// The file that a service writes its output to.
struct LogFile {
    private let path: String
    /// The end of what was read.
    private var place = 0
    /// A line whose end has not been written yet.
    private var rest: [UInt8] = []

    init(_ path: String) { self.path = path }

    private static let most = 1 << 20

    /// The last lines, of the last mebibyte.
    mutating func last(_ count: Int) throws -> [String] {
        let (bytes, isWhole) = try read { max(0, $0 - Self.most) }
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropFirst(
            isWhole ? 0 : 1)
        rest = Array(lines.last ?? [])
        return lines.dropLast().suffix(count).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The lines that were written since.
    mutating func further() throws -> [String] {
        // A file that is shorter is a new one.
        let bytes = rest + (try read { [place] in $0 < place ? 0 : place }.bytes)
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        rest = Array(lines.last ?? [])
        return lines.dropLast().map { String(decoding: $0, as: UTF8.self) }
    }

    /// - Parameter start: Where to begin, of a size.
    private mutating func read(from start: (Int) -> Int) throws -> (bytes: [UInt8], isWhole: Bool) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        // Before the first start there is none.
        if descriptor < 0, errno == ENOENT { return ([], true) }
        guard descriptor >= 0 else { throw UnreadableLog(path: path, error: errno) }
        defer { close(descriptor) }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        let from = start(size)
        let bytes = [UInt8](unsafeUninitializedCapacity: max(0, size - from)) { buffer, count in
            count = max(0, pread(descriptor, buffer.baseAddress, buffer.count, from))
        }
        place = from + bytes.count
        return (bytes, from == 0)
    }
}

private struct UnreadableLog: Problem {
    let path: String
    let error: Int32
    var description: String { "\(path.escaped) cannot be read: \(String(cString: strerror(error)))" }
}
