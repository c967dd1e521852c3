import FoundationEssentials

extension Report {
    init(file: String) throws {
        self = try JSONDecoder().decode(Report.self, from: Data(contentsOf: URL(filePath: file)))
    }

    func write(to file: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(self).write(to: URL(filePath: file))
    }
}

extension Chart {
    func write(to file: String) throws { try Data(svg.utf8).write(to: URL(filePath: file)) }
}
