import SwiftSyntax

/// Finds an async `main` beside uses of the main loop, which nobody serves then on Linux.
final class AsyncMain: ActiveCodeVisitor {
    private(set) var findings: Findings
    private var main: TokenSyntax?
    private var usesMainLoop = false
    private var servesLoop = false

    init(_ findings: Findings) {
        self.findings = findings
        super.init()
    }

    override func visit(_ node: FunctionDeclSyntax) -> SyntaxVisitorContinueKind {
        let isStatic = node.modifiers.contains { ["static", "class"].contains($0.name.text) }
        if isStatic, isOfMain(node), node.name.text == "main", node.signature.effectSpecifiers?.asyncSpecifier != nil {
            main = node.name
        }
        return .visitChildren
    }

    /// Whether a function is a member of the type with `@main`.
    private func isOfMain(_ node: FunctionDeclSyntax) -> Bool {
        let type = node.parent?.parent?.parent?.parent?.asProtocol((any WithAttributesSyntax).self)
        return type?.attributes.contains { $0.trimmedDescription == "@main" } ?? false
    }

    override func visit(_ node: MemberAccessExprSyntax) -> SyntaxVisitorContinueKind {
        if isMainLoop(ExprSyntax(node)) { usesMainLoop = true }
        if node.declName.baseName.text == "run", let base = node.base, isMainLoop(base) { servesLoop = true }
        return .visitChildren
    }

    private func isMainLoop(_ expression: ExprSyntax) -> Bool {
        ["RunLoop.main", "Foundation.RunLoop.main"].contains(expression.trimmedDescription)
    }

    override func visit(_ node: DeclReferenceExprSyntax) -> SyntaxVisitorContinueKind {
        switch node.baseName.text {
        // They deliver in the main loop.
        case "CFRunLoopGetMain", "DistributedNotificationCenter", "CFNotificationCenterGetDarwinNotifyCenter",
            "CFNotificationCenterGetDistributedCenter":
            usesMainLoop = true
        case "CFRunLoopRun", "CFRunLoopRunInMode", "serveFoundation": servesLoop = true
        default: break
        }
        return .visitChildren
    }

    func complete() {
        guard let main, usesMainLoop, !servesLoop else { return }
        findings.remark(
            main,
            "nobody runs RunLoop.main under an async main on Linux: call ThreadRunLoop.main.serveFoundation() first in it"
        )
    }
}
