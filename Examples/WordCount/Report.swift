/// The result of a run, printed as `wc` prints it for the same files in the order of their names.
struct Report: Sendable {
    private let columnWidth: Int
    private var lines: [(path: [UInt8], counts: Counts)] = []
    private var errors: [FileError]

    /// Starts with the errors met on the way to the files. All other results are to be added, in any order.
    init(on tree: FileTree) {
        // The sum of the sizes bounds every number to come. It wraps around as in wc: sparse files can exceed 64 bits.
        let size = tree.files.reduce(0) { sum, file in sum &+ file.size }
        columnWidth = String(size).count
        errors = tree.errors
    }

    mutating func add(_ counts: Counts, ofFile path: [UInt8]) {
        lines.append((path, counts))
    }

    mutating func add(_ error: FileError) {
        errors.append(error)
    }

    var hasErrors: Bool { !errors.isEmpty }

    var fileCount: Int { lines.count }

    /// The files with the most lines.
    func longest(_ count: Int) -> [(path: [UInt8], counts: Counts)] {
        let all = sortedLines.sorted { $0.counts.lines > $1.counts.lines }
        return Array(all.prefix(count))
    }

    /// Whether another run has counted the same, and failed at the same files.
    func agrees(with other: Report) -> Bool {
        errors.count == other.errors.count
            && sortedLines.elementsEqual(other.sortedLines) { $0.path == $1.path && $0.counts == $1.counts }
    }

    private var sortedLines: [(path: [UInt8], counts: Counts)] {
        lines.sorted { $0.path.lexicographicallyPrecedes($1.path) }
    }

    var total: Counts {
        lines.reduce(Counts()) { sum, line in sum + line.counts }
    }

    /// Writes a line for each file, in the order of the bytes of their names, and a total for more than one.
    ///
    /// As in `wc` a file which failed has no line, yet counts for this "more than one".
    func write(to descriptor: Int32) throws(IOError) {
        var output = OutputBuffer(to: descriptor)
        for line in sortedLines {
            try output.write(row(line.counts, PathPrinting.inReport(line.path)))
        }
        if lines.count + errors.count > 1 {
            try output.write(row(total, Array("total".utf8)))
        }
        try output.flush()
    }

    /// Writes a message for each error, in the order of the files' names too.
    func writeErrors(to descriptor: Int32) throws(IOError) {
        var output = OutputBuffer(to: descriptor)
        for error in errors.sorted(by: { $0.path.lexicographicallyPrecedes($1.path) }) {
            try output.write("wordcount: \(error)\n".utf8)
        }
        try output.flush()
    }

    private func row(_ counts: Counts, _ name: [UInt8]) -> [UInt8] {
        var row: [UInt8] = []
        for number in [counts.lines, counts.words, counts.bytes] {
            let digits = String(number).utf8
            row += repeatElement(UInt8(ascii: " "), count: max(0, columnWidth - digits.count))
            row += digits
            row.append(UInt8(ascii: " "))
        }
        return row + name + [UInt8(ascii: "\n")]
    }
}
