import SwiftSyntax

/// Finds conditions such as `#available(macOS 26, *)` that turn on what Linux lacks or refuses: they all hold there. Also finds
/// requirements that no process meets on Linux, outside of such conditions.
final class Availability: ActiveCodeVisitor {
    private let declared: Set<String>
    private(set) var findings: Findings
    /// Whether the program says what stands for requirements of signatures.
    private let replacesSignatures: Bool
    /// The code that a condition with a remark turns on.
    private var remarked: [Range<Int>] = []
    private var unmet: Set<String> = []

    init(_ findings: Findings, _ program: ProgramNames) {
        (self.findings, declared, replacesSignatures) = (findings, program.types, program.replacesSignatures)
        super.init()
    }

    override func visit(_ node: AvailabilityConditionSyntax) -> SyntaxVisitorContinueKind {
        guard node.availabilityKeyword.tokenKind == .poundAvailable, let code = code(after: node) else {
            return .visitChildren
        }
        let tokens = ActiveTokens()
        for part in code { tokens.walk(part) }
        let used = tokens.all.first { token in
            guard case .identifier(let name) = token.tokenKind, !declared.contains(name) else { return false }
            return MissingNames.unmet.contains(name) && !replacesSignatures || MissingNames.advice(on: name) != nil
        }
        if let used {
            remarked += code.map(\.range)
            let isUnmet = MissingNames.unmet.contains(used.text)
            findings.remark(
                node,
                isUnmet
                    ? "this holds on Linux, where no process meets \(used.text): say what stands for it with "
                        + "XPCPeerRequirement.replaceSignatures(with:)"
                    : "this holds on Linux, where \(used.text) does not work: put what it turns on between #if !os(Linux) and "
                        + "#endif")
        }
        return .visitChildren
    }

    override func visit(_ node: MemberAccessExprSyntax) -> SyntaxVisitorContinueKind {
        let name = node.declName.baseName.text
        if MissingNames.unmet.contains(name), !replacesSignatures, !declared.contains(name),
            !remarked.contains(where: { $0.overlaps(node.range) }), unmet.insert(name).inserted
        {
            findings.remark(
                node,
                "no process meets \(name) on Linux: say what stands for it with "
                    + "XPCPeerRequirement.replaceSignatures(with:)")
        }
        return .visitChildren
    }

    /// The code that runs where the condition holds.
    private func code(after node: AvailabilityConditionSyntax) -> [Syntax]? {
        guard let statement = node.parent?.parent?.parent else { return nil }
        if let statement = statement.as(IfExprSyntax.self) { return [Syntax(statement.body)] }
        guard statement.is(GuardStmtSyntax.self), let item = statement.parent,
            let items = item.parent?.as(CodeBlockItemListSyntax.self)
        else { return nil }
        return items.filter { $0.position > item.position }.map { Syntax($0) }
    }
}

/// The tokens of code that is built on Linux.
private final class ActiveTokens: ActiveCodeVisitor {
    private(set) var all: [TokenSyntax] = []

    override func visit(_ token: TokenSyntax) -> SyntaxVisitorContinueKind {
        all.append(token)
        return .skipChildren
    }
}
