import SwiftSyntax

/// Finds imports of modules that Linux lacks, and adds those that the file needs.
final class Imports: ActiveCodeVisitor {
    private let usesAppKit, staysOnMacOS: Bool
    private(set) var findings: Findings
    private var imported: Set<String> = []
    /// Imports that go, because there is one of Foundation.
    private var removed: Set<SyntaxIdentifier> = []
    /// An import of another module that becomes one of Foundation.
    private var foundation: SyntaxIdentifier?
    /// The imports outside of any `#if` that have their lines for themselves.
    private var ofFile: [ImportDeclSyntax] = []

    init(_ findings: Findings, usesAppKit: Bool, staysOnMacOS: Bool) {
        (self.findings, self.usesAppKit, self.staysOnMacOS) = (findings, usesAppKit, staysOnMacOS)
        super.init()
    }

    override func visit(_ node: ImportDeclSyntax) -> SyntaxVisitorContinueKind {
        imported.insert(module(of: node))
        guard node.parent?.parent?.parent?.is(SourceFileSyntax.self) == true else { return .skipChildren }
        let isAlone = ![node.previousToken(viewMode: .sourceAccurate), node.nextToken(viewMode: .sourceAccurate)]
            .contains { $0?.tokenKind == .semicolon }
        if isAlone {
            ofFile.append(node)
        } else if Linux.missingModules.contains(module(of: node)) {
            findings.remark(node, "\(module(of: node)) is not there on Linux: write the import on a line of its own")
        }
        return .skipChildren
    }

    /// The modules of swift-ports that the changed file imports.
    var ownModules: [String] {
        imported.union(findings.modules).intersection(["CoreFoundationPorts", "DarwinNames", "FoundationPorts", "XPC"])
            .sorted()
    }

    private func newModule(of node: ImportDeclSyntax) -> String {
        node.id == foundation ? "Foundation" : module(of: node)
    }

    private func module(of node: ImportDeclSyntax) -> String { node.path.first?.name.text ?? "" }

    /// Changes the imports of a file, after all of them have been visited.
    func complete(_ file: SourceFileSyntax) {
        remarkOnConditional(file)
        let needed = findings.modules.subtracting(imported)
        for node in ofFile {
            let name = module(of: node)
            if Linux.missingModules.contains(name) {
                replace(node)
            } else if Linux.mayLack(name) {
                findings.remark(
                    node,
                    "if \(name) is a module of Apple's, it is not there on Linux: put the import, and what uses it, between "
                        + "#if canImport(\(name)) and #endif")
            }
        }
        var added = needed.sorted()
        if needed.contains("FoundationPorts"), imported.isDisjoint(with: ["Foundation", "CoreFoundation"]) {
            added.insert("Foundation", at: 0)
        }
        let kept = ofFile.filter { !removed.contains($0.id) }
        guard let last = kept.last(where: { module(of: $0) == "Foundation" }) ?? kept.last else {
            guard !added.isEmpty, let first = file.statements.first else { return }
            let text = added.map(line).joined(separator: "\n")
            return findings.edits.insert(text + "\n\n", before: Self.start(of: first))
        }
        let names = kept.map(newModule)
        let isSorted = zip(names, names.dropFirst()).allSatisfy { $0.0 <= $0.1 }
        for module in added {
            let place = isSorted ? kept.last { newModule(of: $0) < module } : last
            if let place {
                findings.edits.insert("\n" + line(module), after: place.endPosition.utf8Offset)
            } else {
                findings.edits.insert(line(module) + "\n", after: kept[0].range.lowerBound)
            }
        }
    }

    private func line(_ module: String) -> String {
        module == "Foundation" || !staysOnMacOS
            ? "import \(module)" : "#if canImport(\(module))\nimport \(module)\n#endif"
    }

    private func replace(_ node: ImportDeclSyntax) {
        let name = module(of: node)
        let isAppKit = Self.appKit.contains(name)
        if isAppKit, !usesAppKit, node.path.count == 1, node.importKindSpecifier == nil {
            if imported.insert("Foundation").inserted {
                findings.edits.replace(node.path.range, with: "Foundation")
                foundation = node.id
            } else {
                removeLine(node)
            }
            return
        }
        findings.edits.insert("#if canImport(\(name))\n", before: node.range.lowerBound)
        let isDarwinAlone = name == "Darwin" && !imported.contains("Foundation") && imported.insert("Glibc").inserted
        let otherwise = isDarwinAlone ? "\n#else\nimport Glibc" : ""
        findings.edits.insert("\(otherwise)\n#endif", after: node.endPosition.utf8Offset)
        if isAppKit, imported.insert("Foundation").inserted {
            findings.edits.insert("\nimport Foundation", after: node.endPosition.utf8Offset)
        }
    }

    /// Remarks on imports that are alone between `#if canImport` and `#endif`, as this migration leaves them.
    private func remarkOnConditional(_ file: SourceFileSyntax) {
        for statement in file.statements {
            guard let block = statement.item.as(IfConfigDeclSyntax.self), let clause = block.clauses.first,
                case .statements(let items) = clause.elements, items.count == 1,
                let node = items.first?.item.as(ImportDeclSyntax.self),
                clause.condition?.trimmedDescription == "canImport(\(module(of: node)))"
            else { continue }
            let name = module(of: node)
            guard Linux.missingModules.contains(name), !Self.appKit.contains(name) else { continue }
            let advice = Self.advice[name] ?? "put what uses it between #if canImport(\(name)) and #endif"
            if !advice.isEmpty { findings.remark(node, "\(name) is not there on Linux: \(advice)") }
        }
    }

    private static let appKit: Set<String> = ["AppKit", "Cocoa", "UIKit"]

    /// Advice on modules; empty where the names say what is left.
    private static let advice = [
        "Darwin": "", "ObjectiveC": "", "os": "", "OSLog": "", "simd": "",
        "System": "use SystemPackage of the package swift-system",
        "Combine": "use closures or AsyncStream",
        "CommonCrypto": "use Crypto of the package swift-crypto",
        "CryptoKit": "use Crypto of the package swift-crypto",
        "Network": "use swift-nio, or Glibc's sockets",
    ]

    private func removeLine(_ node: ImportDeclSyntax) {
        removed.insert(node.id)
        let next = node.nextToken(viewMode: .sourceAccurate)
        let isAlone = node.trailingTrivia.isSpace && next?.leadingTrivia.isSpace == true
        guard isAlone, let next, node.leadingTrivia.isSpace else { return findings.edits.replace(node.range, with: "") }
        // The next line keeps its distance from the line before.
        let isFirst = node.position.utf8Offset == 0
        let end = isFirst ? next.positionAfterSkippingLeadingTrivia : next.position
        findings.edits.replace(node.position.utf8Offset..<end.utf8Offset, with: "")
    }

    /// Where a file's first statement begins with the comment that belongs to it, but without the file's own.
    private static func start(of item: CodeBlockItemSyntax) -> Int {
        var (offset, start) = (item.position.utf8Offset, item.position.utf8Offset)
        for piece in item.leadingTrivia {
            offset += piece.sourceLength.utf8Length
            switch piece {
            case .newlines(let count), .carriageReturnLineFeeds(let count):
                if count > 1 { start = offset }
            default: break
            }
        }
        let hasComment = !item.leadingTrivia.isSpace
        return hasComment ? start : offset
    }
}
