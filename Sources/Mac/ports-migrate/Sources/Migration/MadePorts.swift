import SwiftSyntax

/// Finds objects that are made of Foundation's class Port, whose initializer ends the program on Linux: on macOS it makes an
/// NSMachPort.
final class MadePorts: ActiveCodeVisitor {
    private let types: TypeFinder
    private let declared: Set<String>
    private(set) var findings: Findings

    init(_ findings: Findings, _ declarations: Declarations, declared: Set<String>) {
        (self.findings, self.declared, types) = (findings, declared, TypeFinder(declarations: declarations))
        super.init()
    }

    override func visit(_ node: FunctionCallExprSyntax) -> SyntaxVisitorContinueKind {
        guard node.arguments.isEmpty, node.trailingClosure == nil, let made = made(node.calledExpression) else {
            return .visitChildren
        }
        findings.edits.replace(made.range, with: "NSMachPort")
        findings.modules.insert("FoundationPorts")
        return .visitChildren
    }

    /// The expression for the class in `Port()`, `Port.init()` or `.init()`; nil for another call.
    private func made(_ called: ExprSyntax) -> ExprSyntax? {
        let access = called.as(MemberAccessExprSyntax.self)
        guard let access, access.declName.baseName.text == "init" else { return isPort(called) ? called : nil }
        if let base = access.base { return isPort(base) ? base : nil }
        guard let call = access.parent?.as(FunctionCallExprSyntax.self),
            let type = types.expectedType(of: ExprSyntax(call)), isPort(type.name)
        else { return nil }
        return called
    }

    private func isPort(_ expression: ExprSyntax) -> Bool {
        if let access = expression.as(MemberAccessExprSyntax.self) {
            return access.trimmedDescription == "Foundation.Port"
        }
        return expression.as(DeclReferenceExprSyntax.self).map { isPort($0.baseName.text) } ?? false
    }

    private func isPort(_ name: String, depth: Int = 0) -> Bool {
        if let alias = types.declarations.aliases[name], depth < 8, let type = ValueType(alias) {
            // `typealias Port = Foundation.Port`
            return alias.trimmedDescription == "Foundation.Port" || isPort(type.name, depth: depth + 1)
        }
        return ["Port", "NSPort"].contains(name) && !declared.contains(name)
    }
}
