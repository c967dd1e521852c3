import SwiftSyntax

/// The method that `#selector` names, if the file declares it or its parameters are written.
struct SelectedMethod {
    let selector: SyntaxIdentifier
    private let name: String
    /// The label of the method's only parameter, `_` for none; nil without a parameter.
    let parameterLabel: String?
    private let isOfMainActor: Bool
    private let takesNil: Bool

    init?(_ expression: ExprSyntax, _ declarations: Declarations) {
        guard let macro = expression.as(MacroExpansionExprSyntax.self), macro.macroName.text == "selector",
            let argument = macro.arguments.first?.expression
        else { return nil }
        let reference = argument.as(DeclReferenceExprSyntax.self) ?? argument.as(MemberAccessExprSyntax.self)?.declName
        guard let reference else { return nil }
        let methods = declarations.functions[reference.baseName.text] ?? []
        if let labels = reference.argumentNames?.arguments.map(\.name.text) {
            guard labels.count <= 1 else { return nil }
            parameterLabel = labels.first
        } else {
            // Without labels, the only method of that name.
            guard let method = methods.first, methods.count == 1 else { return nil }
            let parameters = method.signature.parameterClause.parameters
            guard parameters.count <= 1 else { return nil }
            parameterLabel = parameters.first?.firstName.text
        }
        (selector, name) = (macro.id, reference.baseName.text)
        isOfMainActor = methods.contains { Self.isOfMainActor(Syntax($0)) }
        takesNil = methods.contains { method in
            method.signature.parameterClause.parameters.first?.type.is(OptionalTypeSyntax.self) == true
        }
    }

    /// Whether the method can be called with this argument, or has no parameter.
    func takes(_ argument: String) -> Bool { parameterLabel == nil || argument != "nil" || takesNil }

    private static func isOfMainActor(_ node: Syntax) -> Bool {
        var node: Syntax? = node
        while let current = node {
            let attributes = current.asProtocol((any WithAttributesSyntax).self)?.attributes
            if attributes?.contains(where: { $0.trimmedDescription == "@MainActor" }) == true { return true }
            node = current.parent
        }
        return false
    }

    /// A closure that calls the method with its own only parameter.
    func closure(target: String, parameter: String, isWeak: Bool) -> SelectorClosure {
        closure(target: target, input: parameterLabel == nil ? "_" : parameter, passing: parameter, isWeak: isWeak)
    }

    /// A closure that calls the method with an argument, and ignores its own only parameter.
    func closure(target: String, passing argument: String) -> SelectorClosure {
        closure(target: target, input: "_", passing: argument, isWeak: false)
    }

    private func closure(target: String, input: String, passing argument: String, isWeak: Bool) -> SelectorClosure {
        let (capture, object) = capture(of: target, isWeak)
        let call = call(object, argument)
        return SelectorClosure(
            head: "\(capture)\(input) in", body: isOfMainActor ? "MainActor.assumeIsolated { \(call) }" : call)
    }

    /// A closure without parameters that calls the method.
    func closure(target: String, argument: String) -> SelectorClosure {
        let (capture, object) = capture(of: target, false)
        return SelectorClosure(head: capture.isEmpty ? "" : capture + "in", body: call(object, argument))
    }

    private func call(_ object: String, _ argument: String) -> String {
        switch parameterLabel {
        case nil: "\(object).\(name)()"
        case "_": "\(object).\(name)(\(argument))"
        case let label?: "\(object).\(name)(\(label): \(argument))"
        }
    }

    private func capture(of target: String, _ isWeak: Bool) -> (list: String, object: String) {
        switch (target, isWeak) {
        case ("self", false): ("", "self")
        case ("self", true): ("[weak self] ", "self?")
        case (_, false): ("[target = \(target)] ", "target")
        case (_, true): ("[weak observer = \(target)] ", "observer?")
        }
    }
}

/// A closure in the place of a selector.
struct SelectorClosure {
    let head, body: String

    /// The closure after a part of its line: on this line, if there is room.
    func text(after line: String) -> String {
        let short = head.isEmpty ? "{ \(body) }" : "{ \(head) \(body) }"
        guard line.count + short.count > 119 else { return short }
        let indentation = line.prefix { $0 == " " || $0 == "\t" }
        return "{\(head.isEmpty ? "" : " " + head)\n\(indentation)    \(body)\n\(indentation)}"
    }
}
