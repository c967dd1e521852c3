/// The assignments of a file in the syntax of systemd's unit files, which service files have.
///
///     [Service]
///     # A comment
///     ExecStart=/usr/bin/clock --utc \
///         --precise
///     Environment=LEVEL=debug "GREETING=good day"
struct UnitFile {
    /// A value with its place.
    struct Assignment: Hashable {
        let section: String
        let key: String
        let value: String
        let line: Int
    }

    let assignments: [Assignment]

    /// - Throws: ``ServiceFileError``, without a path.
    init(_ text: String) throws(ServiceFileError) {
        var (section, assignments) = (nil as String?, [Assignment]())
        for (number, line) in Self.logicalLines(of: text) {
            if line.first == "[" {
                guard line.last == "]" else { throw ServiceFileError(number, "a section ends with “]”") }
                section = String(line.dropFirst().dropLast())
                continue
            }
            guard let section else {
                throw ServiceFileError(number, "the file begins with a section, such as [Service]")
            }
            guard let equals = line.firstIndex(of: "=") else {
                throw ServiceFileError(number, "“\(line)” is no assignment: write KEY=VALUE")
            }
            assignments.append(
                Assignment(
                    section: section, key: String(line[..<equals].trimmed),
                    value: String(line[line.index(after: equals)...].trimmed), line: number))
        }
        self.assignments = assignments
    }

    /// The lines that say something, with their numbers. A backslash at the end of a line joins it to the next.
    private static func logicalLines(of text: String) -> [(number: Int, line: Substring)] {
        var (lines, joined) = ([(number: Int, line: Substring)](), nil as (number: Int, line: Substring)?)
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let line = line.trimmed
            let isComment = line.first == "#" || line.first == ";"
            // As in systemd, a comment between joined lines is left out.
            if isComment || line.isEmpty && joined == nil { continue }
            var whole = joined ?? (index + 1, "")
            whole.line += line
            if line.last == "\\" {
                whole.line = whole.line.dropLast() + " "
                joined = whole
            } else {
                joined = nil
                lines.append((whole.number, whole.line.trimmed))
            }
        }
        return lines + (joined.map { [($0.number, $0.line.trimmed)] } ?? [])
    }
}

extension UnitFile.Assignment {
    func error(_ reason: String) -> ServiceFileError { ServiceFileError(line, "\(key): \(reason)") }

    /// The words of the value. Quotes of both kinds keep spaces, and a backslash keeps the next character.
    var words: [String] {
        get throws(ServiceFileError) {
            var (words, word, quote, isEscaped) = ([String](), nil as String?, nil as Character?, false)
            for character in value {
                switch character {
                case _ where isEscaped:
                    word = (word ?? "") + (try escaped(character))
                    isEscaped = false
                case "\\": isEscaped = true
                case _ where character == quote: quote = nil
                case "\"" where quote == nil, "'" where quote == nil: (quote, word) = (character, word ?? "")
                case " " where quote == nil, "\t" where quote == nil:
                    if let word { words.append(word) }
                    word = nil
                default: word = (word ?? "") + String(character)
                }
            }
            if let quote { throw error("the quotation that \(quote) begins is not closed") }
            if isEscaped { throw error("nothing follows the last backslash") }
            return words + (word.map { [$0] } ?? [])
        }
    }

    private func escaped(_ character: Character) throws(ServiceFileError) -> String {
        switch character {
        case "\\", "\"", "'", " ": String(character)
        case "n": "\n"
        case "t": "\t"
        case "s": " "
        default: throw error("“\\\(character)” stands for nothing: write \\\\ for a backslash")
        }
    }

    var flag: Bool {
        get throws(ServiceFileError) {
            switch value.lowercased() {
            case "yes", "true", "on", "1": true
            case "no", "false", "off", "0": false
            default: throw error("“\(value)” is neither yes nor no")
            }
        }
    }

    func number(in range: ClosedRange<Int>) throws(ServiceFileError) -> Int {
        guard let number = Int(value), range.contains(number) else {
            throw error("“\(value)” is no number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A number of bytes, such as `512M`; nil for `infinity`.
    var size: Int? {
        get throws(ServiceFileError) {
            if value == "infinity" { return nil }
            let shift = ["K": 10, "M": 20, "G": 30, "T": 40][value.suffix(1)]
            let number = Int(shift == nil ? value[...] : value.dropLast())
            guard let number, number >= 0, number <= Int.max >> (shift ?? 0) else {
                throw error("“\(value)” is no number of bytes, such as 512M")
            }
            return number << (shift ?? 0)
        }
    }

    /// A time in seconds or with units, such as `90`, `500ms` or `2min 30s`; nil for `infinity`.
    var time: Duration? {
        get throws(ServiceFileError) {
            if value == "infinity" { return nil }
            var (time, rest) = (Duration.zero, value[...].trimmed)
            repeat {
                let digits = rest.prefix { $0.isASCII && $0.isNumber }
                rest = rest.dropFirst(digits.count).drop { $0 == " " }
                let unit = rest.prefix { $0.isLetter }
                rest = rest.dropFirst(unit.count).drop { $0 == " " }
                guard let number = Int(digits), number < 1 << 31, let length = Self.units[String(unit)],
                    time + length * number <= Self.longest
                else { throw error("“\(value)” is no time up to 20000d, such as 90, 500ms or 2min 30s") }
                time += length * number
            } while !rest.isEmpty
            return time
        }
    }

    /// A longer time is a mistake, and could not be counted in every unit.
    private static let longest = Duration.seconds(20_000 * 86_400)

    private static let units: [String: Duration] = [
        "": .seconds(1), "ms": .milliseconds(1), "s": .seconds(1), "sec": .seconds(1), "min": .seconds(60),
        "m": .seconds(60), "h": .seconds(3600), "hr": .seconds(3600), "d": .seconds(86400),
    ]
}

extension StringProtocol {
    fileprivate var trimmed: SubSequence {
        let start = drop { $0 == " " || $0 == "\t" || $0 == "\r" }
        let spaces = start.reversed().prefix { $0 == " " || $0 == "\t" || $0 == "\r" }.count
        return start.dropLast(spaces)
    }
}
