import SwiftSyntax

/// Visits the code that is built on Linux: no block that `#if` leaves to Apple's systems.
class ActiveCodeVisitor: SyntaxVisitor {
    init() { super.init(viewMode: .sourceAccurate) }

    final override func visit(_ node: IfConfigDeclSyntax) -> SyntaxVisitorContinueKind {
        var isTaken = false
        for clause in node.clauses where !isTaken {
            let holds = clause.condition.map(Linux.holds) ?? true
            if holds != false, let elements = clause.elements { walk(Syntax(elements)) }
            isTaken = holds == true
        }
        return .skipChildren
    }
}

/// Facts about a build on Linux.
enum Linux {
    /// Modules of Apple's that it has not.
    static let missingModules: Set<String> = [
        "AppKit", "ApplicationServices", "AudioToolbox", "AVFoundation", "Carbon", "Cocoa", "Combine", "CoreAudio",
        "CoreGraphics", "CoreMedia", "CoreMediaIO", "CoreServices", "CoreVideo", "Darwin", "FinderSync",
        "InputMethodKit", "IOKit", "JavaScriptCore", "MachO", "Metal", "ObjectiveC", "OSLog", "PDFKit", "QuartzCore",
        "Quartz", "ScriptingBridge", "Security", "ServiceManagement", "SwiftUI", "System", "UIKit",
        "UniformTypeIdentifiers", "UserNotifications", "WebKit", "WidgetKit", "os", "simd",
    ]

    /// Whether a condition of `#if` holds; nil when that depends on how the program is built.
    static func holds(_ condition: ExprSyntax) -> Bool? {
        if let call = condition.as(FunctionCallExprSyntax.self), let argument = call.arguments.first {
            let value = argument.expression.trimmedDescription
            switch call.calledExpression.trimmedDescription {
            case "os": return value == "Linux"
            case "canImport": return missingModules.contains(value) ? false : nil
            case "targetEnvironment": return false
            default: return nil
            }
        }
        if let not = condition.as(PrefixOperatorExprSyntax.self), not.operator.text == "!" {
            return holds(not.expression).map { !$0 }
        }
        if let tuple = condition.as(TupleExprSyntax.self), let only = tuple.elements.first, tuple.elements.count == 1 {
            return holds(only.expression)
        }
        if let sequence = condition.as(SequenceExprSyntax.self) { return holds(Array(sequence.elements)[...]) }
        return nil
    }

    /// `&&` binds closer than `||`.
    private static func holds(_ elements: ArraySlice<ExprSyntax>) -> Bool? {
        for (name, decisive) in [("||", true), ("&&", false)] {
            let parts = elements.split { $0.as(BinaryOperatorExprSyntax.self)?.operator.text == name }
            guard parts.count > 1 else { continue }
            let values = parts.map(holds)
            if values.contains(decisive) { return decisive }
            return values.contains(nil) ? nil : !decisive
        }
        return elements.count == 1 ? elements.first.flatMap(holds) : nil
    }
}
