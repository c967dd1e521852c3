import SwiftSyntax

/// Finds code that `#if` leaves to macOS though Linux has, with this package, what it uses.
final class MacOnlyCode: ActiveCodeVisitor {
    private(set) var findings: Findings

    init(_ findings: Findings) {
        self.findings = findings
        super.init()
    }

    override func leave(_ clause: IfConfigClauseSyntax, of block: IfConfigDeclSyntax) {
        guard let code = clause.elements, block.clauses.allSatisfy({ $0.id == clause.id || $0.elements == nil }) else {
            return
        }
        var first: String?
        for token in code.tokens(viewMode: .sourceAccurate) {
            guard case .identifier(let name) = token.tokenKind else { continue }
            if MissingNames.advice(on: name) != nil || MissingNames.isOfAppKit(name) { return }
            if first == nil, PortableNames.isOfPorts(name) { first = name }
        }
        if let first {
            findings.remark(
                clause,
                "this is left to macOS, and Linux has \(first), too: take the condition away, or build it there by "
                    + "|| os(Linux)")
        }
    }
}
