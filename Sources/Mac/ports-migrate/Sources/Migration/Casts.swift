import SwiftSyntax

/// Finds casts between Swift's types and CoreFoundation's, which the compiler has only where there is Objective-C.
final class Casts: ActiveCodeVisitor {
    private let types: TypeFinder
    private(set) var findings: Findings
    /// Changes of calls around casts, which have their turn later.
    private let before: Edits

    init(_ findings: Findings, _ types: TypeFinder) {
        (self.findings, self.types, before) = (findings, types, findings.edits)
        super.init()
    }

    // After what is inside.
    override func visitPost(_ node: SequenceExprSyntax) {
        let elements = Array(node.elements)
        for (index, element) in elements.enumerated() {
            guard let cast = element.as(UnresolvedAsExprSyntax.self), index > 0, index + 1 < elements.count,
                let written = elements[index + 1].as(TypeExprSyntax.self)?.type, let target = ValueType(written)
            else { continue }
            let operand = elements[Self.start(ofOperandBefore: index, elements)..<index]
            guard let first = operand.first, !first.is(PatternExprSyntax.self) else { continue }
            let found = Cast(operand: operand.map(Self.inner), keyword: cast, written: written, target: target)
            if let mark = cast.questionOrExclamationMark {
                if mark.tokenKind == .exclamationMark { remarkForced(found) }
            } else {
                rewrite(found)
            }
        }
    }

    /// In `try x as CFData`, the cast belongs to x.
    private static func inner(_ expression: ExprSyntax) -> ExprSyntax {
        let inner = expression.as(TryExprSyntax.self)?.expression ?? expression.as(AwaitExprSyntax.self)?.expression
        return inner.map(Self.inner) ?? expression
    }

    private struct Cast {
        let operand: [ExprSyntax]
        let keyword: UnresolvedAsExprSyntax
        let written: TypeSyntax
        let target: ValueType

        var start: Int { operand[0].range.lowerBound }
        var operandEnd: Int { operand[operand.count - 1].range.upperBound }
        var end: Int { written.range.upperBound }
    }

    /// Casts bind closer than comparisons and `??`, and less close than arithmetic.
    private static func start(ofOperandBefore index: Int, _ elements: [ExprSyntax]) -> Int {
        var start = index - 1
        while start >= 2 {
            let previous = elements[start - 1]
            if previous.is(UnresolvedAsExprSyntax.self) {
                start -= 2
            } else if let name = previous.as(BinaryOperatorExprSyntax.self)?.operator.text,
                ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "...", "..<"].contains(name)
            {
                start -= 2
            } else {
                break
            }
        }
        return start
    }

    private func rewrite(_ cast: Cast) {
        let source = cast.operand.count == 1 ? types.type(of: cast.operand[0]) : nil
        switch cast.target.name {
        case "CFString":
            // A literal is one already, and so is a mode's name.
            guard source?.name != "CFString", !(cast.operand.count == 1 && isLiteral(cast.operand[0])) else { return }
            apply("cfString", cast, source)
        case "CFData":
            guard source?.name != "CFData" else { return }
            apply("cfData", cast, source)
        case "Data" where source?.isCoreFoundation == true: apply("data", cast, source)
        case "String" where source?.isCoreFoundation == true: apply("string", cast, source)
        case "NSData" where source?.isCoreFoundation == true: apply("data", cast, source, keepsType: true)
        case "NSString" where source?.isCoreFoundation == true: apply("string", cast, source, keepsType: true)
        case "Data" where source == nil, "String" where source == nil: wrap(cast)
        case let name where Self.bridged[name] != nil && source?.name != name:
            findings.remark(
                cast.keyword,
                "`as \(cast.written.trimmedDescription)` does not exist on Linux: \(Self.bridged[name] ?? "")")
        default: break
        }
    }

    private static let bridged = [
        "CFArray": "make one with CFArrayCreate, or keep the Swift array",
        "CFDictionary": "make one with CFDictionaryCreate, or keep the Swift dictionary",
        "CFSet": "make one with CFSetCreate, or keep the Swift set",
        "CFNumber": "make one with CFNumberCreate",
        "CFBoolean": "write kCFBooleanTrue or kCFBooleanFalse",
        "CFURL": "make one with CFURLCreateWithString or CFURLCreateWithFileSystemPath",
        "CFDate": "make one with CFDateCreate",
        "CFError": "make one with CFErrorCreate",
        "CFAttributedString": "make one with CFAttributedStringCreate",
        "CFMutableString": "make one with CFStringCreateMutableCopy",
        "CFMutableData": "make one with CFDataCreateMutableCopy",
    ]

    /// `x as CFData` becomes `x.cfData`.
    private func apply(_ member: String, _ cast: Cast, _ source: ValueType?, keepsType: Bool = false) {
        guard hasOnlySpace(cast) else { return }
        let only = cast.operand.count == 1 ? cast.operand[0] : nil
        var access = ".\(member)"
        var keepsType = keepsType
        if cast.target.optionality != .none {
            if let only, types.isChain(only) {
                // The chain is optional already.
            } else if let source, source.optionality != .none {
                access = "?" + access
            } else {
                // Optional as before, for those who unwrap it.
                keepsType = true
            }
        } else if source?.optionality == .optional {
            // It did not compile before, or the type is not what it seems.
            return
        }
        if let only, takesMembers(only) {
            findings.edits.insert(access, after: cast.operandEnd)
        } else {
            findings.edits.insert("(", before: cast.start)
            findings.edits.insert(")" + access, after: cast.operandEnd)
        }
        if !keepsType { findings.edits.replace(cast.operandEnd..<cast.end, with: "") }
        findings.modules.insert("FoundationPorts")
    }

    /// `x as Data` of whatever type becomes `Data(x)`, which takes CFData, NSData and Data.
    private func wrap(_ cast: Cast) {
        guard hasOnlySpace(cast), cast.operand.count == 1 else { return }
        let type = cast.target.name
        guard cast.target.optionality == .none else {
            findings.remark(
                cast.keyword,
                "`as \(type)?` does not exist on Linux for a value of CoreFoundation: "
                    + "write `.\(type == "Data" ? "data" : "string")` in its place, or `?.` after an optional value")
            return
        }
        findings.edits.insert("\(type)(", before: cast.start)
        findings.edits.insert(")", after: cast.operandEnd)
        findings.edits.replace(cast.operandEnd..<cast.end, with: "")
        findings.modules.insert("FoundationPorts")
    }

    /// Conditional casts from CoreFoundation's types work on Linux, too.
    private func remarkForced(_ cast: Cast) {
        guard let conversion = Self.conversion(to: cast.target.name) else { return }
        let source = cast.operand.count == 1 ? types.type(of: cast.operand[0]) : nil
        guard source?.name != cast.target.name else { return }
        findings.remark(
            cast.keyword,
            "`as! \(cast.target.name)` ends the program on Linux, unless CoreFoundation has made the object: "
                + "for another, \(conversion)")
    }

    /// Advice on how to make an object of a bridged type.
    private static func conversion(to type: String) -> String? {
        switch type {
        case "CFString": "write .cfString"
        case "CFData": "write .cfData"
        default: bridged[type]
        }
    }

    private func hasOnlySpace(_ cast: Cast) -> Bool {
        guard let last = cast.operand.last else { return false }
        return last.trailingTrivia.isSpace && cast.keyword.leadingTrivia.isSpace && cast.keyword.trailingTrivia.isSpace
            && cast.written.leadingTrivia.isSpace && !before.touch(cast.start..<cast.end)
    }

    private func isLiteral(_ expression: ExprSyntax) -> Bool { expression.is(StringLiteralExprSyntax.self) }

    /// Whether a member can follow without parentheses.
    private func takesMembers(_ expression: ExprSyntax) -> Bool {
        switch expression.as(ExprSyntaxEnum.self) {
        case .declReferenceExpr, .memberAccessExpr, .functionCallExpr, .subscriptCallExpr, .forceUnwrapExpr,
            .optionalChainingExpr, .tupleExpr, .stringLiteralExpr, .arrayExpr, .dictionaryExpr, .closureExpr,
            .macroExpansionExpr, .superExpr, .genericSpecializationExpr:
            true
        default: false
        }
    }
}
