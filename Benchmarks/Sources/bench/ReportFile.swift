import FoundationEssentials

extension Report {
    init(file: String) throws {
        guard let data = try? Data(contentsOf: URL(filePath: file)),
            let report = try? JSONDecoder().decode(Report.self, from: data)
        else { throw BenchError.noReport(file) }
        self = report
    }

    func write(to file: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(self).write(to: URL(filePath: file))
    }
}
