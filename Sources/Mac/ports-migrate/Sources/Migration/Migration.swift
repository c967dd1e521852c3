import SwiftParser
import SwiftParserDiagnostics
import SwiftSyntax

/// A file of macOS, moved over to Linux.
public struct Migration: Sendable {
    /// The file's new text. For that text, a migration changes nothing.
    public let text: String
    /// The places that are left to a person, in the order of the lines of the new text.
    public let remarks: [Remark]
    /// The modules of swift-ports that the file imports, sorted.
    public let modules: [String]

    /// - Parameters:
    ///   - source: The text of the file.
    ///   - program: The names in the other files of the program.
    ///   - staysOnMacOS: Whether the file is built on macOS, too: then the imports of modules of swift-ports are between
    ///     `#if canImport` and `#endif`.
    /// - Throws: `ParseFailure` when the text is no Swift.
    public init(_ source: String, in program: ProgramNames = ProgramNames(), staysOnMacOS: Bool = false)
        throws(ParseFailure)
    {
        let errors = Self.errors(in: source)
        guard errors.isEmpty else { throw ParseFailure(errors: errors) }
        var (text, pass) = (source, Pass(source, program, staysOnMacOS))
        // Each pass skips the inside of a call that it changes. The next pass looks there.
        for _ in 0..<8 {
            let changed = pass.findings.edits.applied(to: text)
            guard changed != text else { break }
            text = changed
            pass = Pass(text, program, staysOnMacOS)
        }
        self.text = text
        remarks = pass.remarks
        modules = pass.modules
    }

    private static func errors(in source: String) -> [Remark] {
        let tree = Parser.parse(source: source)
        let converter = SourceLocationConverter(fileName: "", tree: tree)
        return ParseDiagnosticsGenerator.diagnostics(for: tree).filter { $0.diagMessage.severity == .error }.map {
            let location = $0.location(converter: converter)
            return Remark(line: location.line, column: location.column, text: $0.message)
        }
    }
}

/// The text of a file is no Swift.
public struct ParseFailure: Error {
    /// The places that the parser does not understand.
    public let errors: [Remark]
}

/// One look at a file.
private struct Pass {
    var findings = Findings()
    let remarks: [Remark]
    let modules: [String]

    init(_ text: String, _ others: ProgramNames, _ staysOnMacOS: Bool) {
        let file = Parser.parse(source: text)
        let declarations = Declarations(in: file)

        let objectiveC = ObjectiveC(findings, text, declarations)
        objectiveC.walk(file)
        var program = others
        program.add(ProgramNames(declarations))
        let madePorts = MadePorts(objectiveC.findings, declarations, declared: program.types)
        madePorts.walk(file)
        let casts = Casts(madePorts.findings, TypeFinder(declarations: declarations))
        casts.walk(file)
        let names = Names(casts.findings, declared: program.types)
        names.noteImports(file)
        names.walk(file)
        names.remarkOnLeft()
        let availability = Availability(names.findings, program)
        availability.walk(file)
        let macOnly = MacOnlyCode(availability.findings, declared: program.types)
        macOnly.walk(file)
        let asyncMain = AsyncMain(macOnly.findings)
        asyncMain.walk(file)
        asyncMain.complete()
        let imports = Imports(asyncMain.findings, usesAppKit: names.usesAppKit, staysOnMacOS: staysOnMacOS)
        imports.walk(file)
        imports.complete(file)
        findings = imports.findings
        modules = imports.ownModules

        let converter = SourceLocationConverter(fileName: "", tree: file)
        remarks = findings.remarks.sorted { $0.offset < $1.offset }.map {
            let location = converter.location(for: AbsolutePosition(utf8Offset: $0.offset))
            return Remark(line: location.line, column: location.column, text: $0.text)
        }
    }
}
