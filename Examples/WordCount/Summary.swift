/// What several runs over the same files have come to, on one page.
struct Summary: Sendable {
    private let paths: [String]
    private var runs: [(workers: String, report: Report, time: Duration)] = []

    init(paths: [String]) { self.paths = paths }

    mutating func add(_ report: Report, of workers: String, in time: Duration) {
        runs.append((workers, report, time))
    }

    /// The first run's.
    var report: Report { runs[0].report }

    /// Whether all runs have counted the same.
    var isAgreed: Bool { runs.allSatisfy { $0.report.agrees(with: report) } }

    func write(to descriptor: Int32) throws(IOError) {
        var output = OutputBuffer(to: descriptor)
        let total = report.total
        try output.write("\(grouped(report.fileCount)) files in \(paths.joined(separator: ", "))\n\n".utf8)
        try output.write(row(["lines", "words", "bytes"], Array("the longest files".utf8)))
        for (path, counts) in report.longest(5) { try output.write(row(counts, PathPrinting.inReport(path))) }
        try output.write(row(total, Array("all files".utf8)))
        try output.write("\n".utf8)
        for (workers, report, time) in runs {
            let seconds = max(time / .seconds(1), 0.001)
            let rates = [Double(report.fileCount), Double(report.total.bytes) / 1e6].map { grouped(Int($0 / seconds)) }
            let columns = [padded("\(workers)", 14, left: false), padded(grouped(Int(seconds * 1000)), 6)]
            try output.write("\(columns.joined()) ms   \(rates[0]) files/s   \(rates[1]) MB/s\n".utf8)
        }
        let verdict = isAgreed ? "They agree on every file." : "They do not agree: is somebody writing to the files?"
        try output.write("\(verdict)\n".utf8)
        try output.flush()
    }

    private func row(_ counts: Counts, _ name: [UInt8]) -> [UInt8] {
        row([counts.lines, counts.words, counts.bytes].map { grouped(Int(clamping: $0)) }, name)
    }

    private func row(_ columns: [String], _ name: [UInt8]) -> [UInt8] {
        Array(columns.map { padded($0, 12) }.joined().utf8) + Array("  ".utf8) + name + Array("\n".utf8)
    }
}

private func padded(_ text: String, _ width: Int, left: Bool = true) -> String {
    let blanks = String(repeating: " ", count: max(0, width - text.count))
    return left ? blanks + text : text + blanks
}

/// With a comma before each three digits: 1,234,567.
private func grouped(_ number: Int) -> String {
    var (digits, result) = (Array(String(number)), "")
    while digits.count > 3 {
        result = "," + String(digits.suffix(3)) + result
        digits.removeLast(3)
    }
    return String(digits) + result
}
