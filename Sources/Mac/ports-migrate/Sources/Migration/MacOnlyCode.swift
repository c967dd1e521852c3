import SwiftSyntax

/// Finds code that `#if` leaves to macOS, and whose names this package has on Linux.
final class MacOnlyCode: ActiveCodeVisitor {
    private let declared: Set<String>
    private(set) var findings: Findings

    init(_ findings: Findings, declared: Set<String>) {
        (self.findings, self.declared) = (findings, declared)
        super.init()
    }

    override func leave(_ clause: IfConfigClauseSyntax, of block: IfConfigDeclSyntax) {
        guard let code = clause.elements, block.clauses.allSatisfy({ $0.id == clause.id || $0.elements == nil }),
            clause.condition?.trimmedDescription.contains(/\b(macOS|OSX|Darwin|Linux)\b/) == true
        else { return }
        var first: String?
        for token in code.tokens(viewMode: .sourceAccurate) {
            guard case .identifier(let name) = token.tokenKind, !declared.contains(name) else { continue }
            // The rest of it is not there, or does nothing.
            if MissingNames.advice(on: name) != nil || MissingNames.isOfAppKit(name)
                || MissingNames.unmet.contains(name)
            {
                return
            }
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
