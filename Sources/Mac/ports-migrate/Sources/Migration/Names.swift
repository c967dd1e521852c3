import SwiftSyntax

/// Finds names that Linux lacks: those that modules of this package have, and those for which there is only advice.
final class Names: ActiveCodeVisitor {
    private let declared: Set<String>
    private(set) var findings: Findings
    /// The first use of each name that is left, and the number of all uses.
    private var left: [String: (node: Syntax, count: Int)] = [:]
    private(set) var usesAppKit = false
    private var importsLogging = false
    private var importsUIKit = false

    init(_ findings: Findings, declared: Set<String>) {
        (self.findings, self.declared) = (findings, declared)
        super.init()
    }

    /// Looks for imports of `os` and `UIKit`, also between `#if` and `#endif`, where a migration puts them.
    func noteImports(_ file: SourceFileSyntax) {
        importsLogging = file.description.contains(/(?m)^\s*(@\w+ )*import (os|OSLog)\b/)
        importsUIKit = file.description.contains(/(?m)^\s*(@\w+ )*import UIKit\b/)
    }

    override func visit(_ node: DeclReferenceExprSyntax) -> SyntaxVisitorContinueKind {
        // A member has the name by chance, except of a module.
        let access = node.parent?.as(MemberAccessExprSyntax.self)
        if let access, access.declName.id == node.id {
            if ["commonModes", "defaultMode", "boolValue", "getCFRunLoop"].contains(node.baseName.text) {
                use(node.baseName)
            }
            if access.trimmedDescription == "Bundle.main.bundleIdentifier" {
                left[access.trimmedDescription, default: (Syntax(access), 0)].count += 1
            }
            return .visitChildren
        }
        if access != nil, node.baseName.text == "Darwin", !findings.edits.touch(node.range) {
            findings.edits.replace(node.range, with: "Foundation")
        }
        use(node.baseName)
        return .visitChildren
    }

    override func visit(_ node: IdentifierTypeSyntax) -> SyntaxVisitorContinueKind {
        use(node.name)
        return .visitChildren
    }

    override func visit(_ node: MemberTypeSyntax) -> SyntaxVisitorContinueKind {
        // Of `NSWindow.Level`, the first name says all.
        node.baseType.is(IdentifierTypeSyntax.self) ? .visitChildren : .skipChildren
    }

    private func use(_ token: TokenSyntax) {
        let name = token.text
        guard !declared.contains(name) else { return }
        if PortableNames.isOfFoundationPorts(name) { findings.modules.insert("FoundationPorts") }
        if PortableNames.isOfDarwinNames(name) { findings.modules.insert("DarwinNames") }
        if PortableNames.isOfXPC(name) { findings.modules.insert("XPC") }
        let isOfAppKit = MissingNames.isOfAppKit(name) || importsUIKit && MissingNames.isOfUIKit(name)
        if isOfAppKit { usesAppKit = true }
        if advice(name) != nil || isOfAppKit {
            left[name, default: (Syntax(token), 0)].count += 1
        }
    }

    private func advice(_ name: String) -> String? {
        MissingNames.advice(on: name) ?? (importsLogging ? MissingNames.adviceOnLogging[name] : nil)
    }

    /// One remark for each name.
    func remarkOnLeft() {
        for (name, use) in left.sorted(by: { $0.value.node.position < $1.value.node.position }) {
            let advice = advice(name) ?? "put what uses it between #if canImport(Darwin) and #endif"
            let more = use.count == 1 ? "" : " (\(use.count) times)"
            findings.remark(use.node, "\(name)\(more) is not there on Linux: \(advice)")
        }
    }
}
