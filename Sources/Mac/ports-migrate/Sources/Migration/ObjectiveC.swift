import SwiftSyntax

/// Finds attributes and calls that need Objective-C, and puts closures in the place of selectors where one will do.
final class ObjectiveC: ActiveCodeVisitor {
    private let source: String
    private let declarations: Declarations
    private(set) var findings: Findings
    /// Selectors whose calls have become closures.
    private var rewritten: Set<SyntaxIdentifier> = []

    init(_ findings: Findings, _ source: String, _ declarations: Declarations) {
        (self.findings, self.source, self.declarations) = (findings, source, declarations)
        super.init()
    }

    // MARK: - Attributes

    override func visit(_ node: AttributeSyntax) -> SyntaxVisitorContinueKind {
        guard ["objc", "objcMembers", "nonobjc"].contains(node.attributeName.trimmedDescription) else {
            return .visitChildren
        }
        let end = node.endPositionBeforeTrailingTrivia
        let next = node.nextToken(viewMode: .sourceAccurate)?.positionAfterSkippingLeadingTrivia ?? end
        let isAlone =
            node.trailingTrivia.isSpace
            && node.nextToken(viewMode: .sourceAccurate)?.leadingTrivia.isSpace == true
        findings.edits.replace(node.range.lowerBound..<(isAlone ? next : end).utf8Offset, with: "")
        return .skipChildren
    }

    /// Without `@objc`, a protocol is for values, too.
    override func visit(_ node: ProtocolDeclSyntax) -> SyntaxVisitorContinueKind {
        guard node.attributes.contains(where: { $0.trimmedDescription.hasPrefix("@objc") }) else {
            return .visitChildren
        }
        guard let inherited = node.inheritanceClause?.inheritedTypes else {
            findings.edits.insert(": AnyObject", after: node.name.range.upperBound)
            return .visitChildren
        }
        let names = inherited.map { $0.type.trimmedDescription }
        if let first = inherited.first, names.allSatisfy({ !["AnyObject", "NSObjectProtocol", "class"].contains($0) }) {
            findings.edits.insert("AnyObject, ", before: first.range.lowerBound)
        }
        return .visitChildren
    }

    override func visit(_ node: DeclModifierSyntax) -> SyntaxVisitorContinueKind {
        if node.name.text == "optional" {
            findings.remark(
                node, "an optional requirement needs Objective-C: remove `optional`, and implement it in an extension")
        }
        return .visitChildren
    }

    // MARK: - Calls

    override func visit(_ node: FunctionCallExprSyntax) -> SyntaxVisitorContinueKind {
        let name = node.calledExpression.trimmedDescription
        let labels = node.arguments.map { $0.label?.text ?? "_" }
        switch (name, labels) {
        case (_, ["timeInterval", "target", "selector", "userInfo", "repeats"]):
            if name.hasSuffix("scheduledTimer") {
                rewriteTimer(node, [("withTimeInterval", 0), ("repeats", 4)])
            } else {
                rewriteTimer(node, [("interval", 0), ("repeats", 4)], fire: fireDate(node))
            }
        case (_, ["timeInterval", "repeats"]), (_, ["timeInterval", "repeats", "block"]):
            guard ["Timer", "Foundation.Timer"].contains(name), let first = node.arguments.first else { break }
            // Foundation for Linux fires such a timer at once.
            findings.edits.replace(
                first.range.lowerBound..<first.expression.range.upperBound,
                with: "\(fireDate(node)), interval: \(argument(node, 0))")
        case (_, ["fireAt", "interval", "target", "selector", "userInfo", "repeats"]):
            rewriteTimer(node, [("fire", 0), ("interval", 1), ("repeats", 5)])
        case (_, ["_", "selector", "name", "object"]) where name.hasSuffix(".addObserver"):
            rewriteObserver(node)
        case (_, ["target", "selector", "object"]) where name == "Thread" || name == "Foundation.Thread":
            rewriteThread(node, "", target: 0, selector: 1, object: 2)
        case (_, ["_", "toTarget", "with"]) where name.hasSuffix("Thread.detachNewThreadSelector"):
            rewriteThread(node, "detachNewThread", target: 1, selector: 0, object: 2)
        case ("perform", ["_", "with", "afterDelay"]), ("self.perform", ["_", "with", "afterDelay"]):
            rewriteDelayed(node)
        case ("performSelector", ["onMainThread", "with", "waitUntilDone"]) where argument(node, 2) == "false",
            ("self.performSelector", ["onMainThread", "with", "waitUntilDone"]) where argument(node, 2) == "false":
            rewriteOnMain(node)
        case (_, ["_"]) where name.hasSuffix(".removeObserver") && argument(node, 0) == "self",
            (_, ["_", "name", "object"]) where name.hasSuffix(".removeObserver") && argument(node, 0) == "self":
            findings.remark(
                node,
                "an observer that is a closure goes by its token: keep what addObserver(forName:object:queue:using:) "
                    + "returns, and remove that")
        default: break
        }
        remarkOnSelectors(node)
        return .visitChildren
    }

    /// A selector that is a value; one that is written out is found by itself.
    private func remarkOnSelectors(_ call: FunctionCallExprSyntax) {
        for argument in call.arguments
        where argument.label?.text == "selector" && !argument.expression.is(MacroExpansionExprSyntax.self)
            && ["addObserver", "scheduledTimer", "Timer", "Thread"].contains(where: {
                call.calledExpression.trimmedDescription.hasSuffix($0)
            })
        {
            findings.remark(argument.expression, Self.advice)
        }
    }

    /// Advice on a call whose selector this migration leaves.
    private static func advice(on call: FunctionCallExprSyntax?) -> String {
        let labels = call?.arguments.map { $0.label?.text ?? "_" } ?? []
        guard labels.contains("on"), labels.first == "_" else { return advice }
        return "selectors need Objective-C: keep the RunLoop of that thread, call its perform(_:) with a closure, "
            + "which ends its run with CFRunLoopStop(CFRunLoopGetCurrent()) if the run is to end after it, and then "
            + "CFRunLoopWakeUp(loop.getCFRunLoop())"
    }

    private static let advice = "selectors need Objective-C: call the method in a closure"

    override func visit(_ node: MacroExpansionExprSyntax) -> SyntaxVisitorContinueKind {
        guard node.macroName.text == "selector", !rewritten.contains(node.id) else { return .visitChildren }
        let call = node.parent?.parent?.parent?.as(FunctionCallExprSyntax.self)
        findings.remark(node, Self.advice(on: call))
        return .skipChildren
    }

    private func argument(_ call: FunctionCallExprSyntax, _ index: Int) -> String {
        let index = call.arguments.index(call.arguments.startIndex, offsetBy: index)
        return call.arguments[index].expression.trimmedDescription
    }

    private func expression(_ call: FunctionCallExprSyntax, _ index: Int) -> ExprSyntax {
        call.arguments[call.arguments.index(call.arguments.startIndex, offsetBy: index)].expression
    }

    /// The first firing of a timer that is made with an interval.
    private func fireDate(_ call: FunctionCallExprSyntax) -> String {
        "fire: Date(timeIntervalSinceNow: \(argument(call, 0)))"
    }

    /// As on macOS, a timer keeps its target.
    /// - Parameter fire: A first argument.
    private func rewriteTimer(
        _ call: FunctionCallExprSyntax, _ kept: [(label: String, index: Int)], fire: String? = nil
    ) {
        let first = call.arguments.count - 4
        guard argument(call, first + 2) == "nil",
            let method = SelectedMethod(expression(call, first + 1), declarations)
        else { return }
        let closure = method.closure(target: argument(call, first), parameter: "timer", isWeak: false)
        let arguments = (fire.map { [$0] } ?? []) + kept.map { "\($0.label): \(argument(call, $0.index))" }
        replaceArguments(of: call, with: "(\(arguments.joined(separator: ", ")))", closure, method)
    }

    /// As on macOS, a notification center does not keep its observers.
    private func rewriteObserver(_ call: FunctionCallExprSyntax) {
        guard let method = SelectedMethod(expression(call, 1), declarations) else { return }
        let closure = method.closure(target: argument(call, 0), parameter: "notification", isWeak: true)
        let isStatement = call.parent?.is(CodeBlockItemSyntax.self) == true
        replaceArguments(
            of: call, with: "(forName: \(argument(call, 2)), object: \(argument(call, 3)), queue: nil)", closure,
            method,
            after: isStatement ? "_ = " : "")
        if isStatement { findings.edits.insert("_ = ", before: call.range.lowerBound) }
    }

    private func rewriteThread(
        _ call: FunctionCallExprSyntax, _ name: String, target: Int, selector: Int, object: Int
    ) {
        guard let method = SelectedMethod(expression(call, selector), declarations) else { return }
        let passed = argument(call, object)
        guard method.takes(passed) else { return }
        let closure = method.closure(target: argument(call, target), argument: passed)
        if !name.isEmpty, let access = call.calledExpression.as(MemberAccessExprSyntax.self) {
            findings.edits.replace(access.declName.range, with: name)
        }
        replaceArguments(of: call, with: "", closure, method)
    }

    private func rewriteDelayed(_ call: FunctionCallExprSyntax) {
        guard let method = SelectedMethod(expression(call, 0), declarations), method.takes(argument(call, 1)) else {
            return
        }
        let closure = method.closure(target: "self", passing: argument(call, 1))
        replace(
            call, "_ = Timer.scheduledTimer", "(withTimeInterval: \(argument(call, 2)), repeats: false)", closure,
            method)
    }

    private func rewriteOnMain(_ call: FunctionCallExprSyntax) {
        guard let method = SelectedMethod(expression(call, 0), declarations), method.takes(argument(call, 1)) else {
            return
        }
        replace(
            call, "DispatchQueue.main.async", "", method.closure(target: "self", argument: argument(call, 1)), method)
    }

    private func replace(
        _ call: FunctionCallExprSyntax, _ name: String, _ arguments: String, _ closure: SelectorClosure,
        _ method: SelectedMethod
    ) {
        findings.edits.replace(call.calledExpression.range, with: name)
        replaceArguments(of: call, with: arguments, closure, method)
    }

    private func replaceArguments(
        of call: FunctionCallExprSyntax, with text: String, _ closure: SelectorClosure, _ method: SelectedMethod,
        after inserted: String = ""
    ) {
        rewritten.insert(method.selector)
        let (start, end) = (call.calledExpression.range.upperBound, call.range.upperBound)
        let before = source.utf8.prefix(start).reversed().prefix { $0 != UInt8(ascii: "\n") }.reversed()
        let line = String(decoding: before, as: UTF8.self) + inserted + text + " "
        findings.edits.replace(start..<end, with: "\(text) \(closure.text(after: line))")
    }
}
