import SwiftSyntax

/// Finds types of expressions, as far as the text of their file says them. Nothing is known of other files, except for
/// functions of CoreFoundation.
struct TypeFinder {
    let declarations: Declarations

    func type(of expression: ExprSyntax, depth: Int = 0) -> ValueType? {
        guard depth < 8 else { return nil }
        func next(_ inner: ExprSyntax) -> ValueType? { type(of: inner, depth: depth + 1) }
        switch expression.as(ExprSyntaxEnum.self) {
        case .declReferenceExpr(let reference):
            return type(of: reference.baseName.text, from: Syntax(reference), depth: depth + 1)
        case .stringLiteralExpr:
            return ValueType(name: "String")
        case .forceUnwrapExpr(let forced):
            return next(forced.expression)?.wrapped
        case .optionalChainingExpr(let chained):
            return next(chained.expression)?.wrapped
        case .tryExpr(let tried):
            let type = next(tried.expression)
            return tried.questionOrExclamationMark?.tokenKind == .postfixQuestionMark ? type?.optional() : type
        case .awaitExpr(let awaited):
            return next(awaited.expression)
        case .tupleExpr(let tuple):
            guard tuple.elements.count == 1, let only = tuple.elements.first else { return nil }
            return next(only.expression)
        case .sequenceExpr(let sequence):
            return type(of: sequence)
        case .memberAccessExpr(let access):
            return type(of: access, depth: depth)
        case .functionCallExpr(let call):
            return type(of: call, depth: depth)
        default:
            return nil
        }
    }

    /// The type that the last cast of a sequence names.
    private func type(of sequence: SequenceExprSyntax) -> ValueType? {
        let elements = Array(sequence.elements)
        guard elements.count == 3, let type = elements[2].as(TypeExprSyntax.self).flatMap({ ValueType($0.type) }),
            let cast = elements[1].as(UnresolvedAsExprSyntax.self)
        else { return nil }
        return cast.questionOrExclamationMark?.tokenKind == .postfixQuestionMark ? type.optional() : type
    }

    private static let conversions = ["cfData": "CFData", "cfString": "CFString"]

    private func type(of access: MemberAccessExprSyntax, depth: Int) -> ValueType? {
        let name = access.declName.baseName.text
        guard let base = access.base else { return nil }
        if name == "rawValue", isMode(base, depth: depth + 1) { return ValueType(name: "CFString") }
        let isOptional = isChain(ExprSyntax(access))
        var found = Self.conversions[name].map { ValueType(name: $0) }
        if found != nil {
            // A conversion of FoundationPorts.
        } else if let reference = base.as(DeclReferenceExprSyntax.self),
            ["self", "Self"].contains(reference.baseName.text)
        {
            found = enclosingMembers(of: Syntax(access)).flatMap { member(name, of: $0, depth: depth + 1) }
        } else if let reference = base.as(DeclReferenceExprSyntax.self),
            reference.baseName.text.first?.isUppercase == true
        {
            found = member(name, ofType: reference.baseName.text, depth: depth + 1)
        } else if let baseType = type(of: base, depth: depth + 1) {
            let conversion = baseType.isCoreFoundation ? ["data": "Data", "string": "String"][name] : nil
            found = conversion.map { ValueType(name: $0) } ?? member(name, ofType: baseType.name, depth: depth + 1)
        }
        return isOptional ? found?.optional() : found
    }

    /// Whether an expression is a mode of CoreFoundation, and no `RunLoop.Mode`.
    private func isMode(_ expression: ExprSyntax, depth: Int) -> Bool {
        let text = expression.trimmedDescription
        if text.hasPrefix("kCFRunLoop") || ["CFRunLoopMode.defaultMode", "CFRunLoopMode.commonModes"].contains(text) {
            return true
        }
        return type(of: expression, depth: depth)?.name == "CFRunLoopMode"
    }

    private func type(of call: FunctionCallExprSyntax, depth: Int) -> ValueType? {
        if let reference = call.calledExpression.as(DeclReferenceExprSyntax.self) {
            let name = reference.baseName.text
            if let result = CoreFoundationFunctions.result(of: name) { return result }
            if let declared = function(name) { return declared }
            return name.first?.isUppercase == true ? ValueType(name: name) : nil
        }
        guard let access = call.calledExpression.as(MemberAccessExprSyntax.self), let base = access.base else {
            return nil
        }
        let name = access.declName.baseName.text
        var found: ValueType?
        switch name {
        case "takeRetainedValue", "takeUnretainedValue":
            let held = type(of: base, depth: depth + 1)?.argument ?? unmanaged(base)
            // Of unknown type, but an object; in a cast of Swift's own types, one of CoreFoundation's.
            found = ValueType(name: held ?? "CFType")
        default:
            if let reference = base.as(DeclReferenceExprSyntax.self) {
                let base = reference.baseName.text
                if ["self", "Self"].contains(base) || base.first?.isUppercase == true { found = function(name) }
            }
        }
        return isChain(call.calledExpression) ? found?.optional() : found
    }

    /// The argument of `Unmanaged<Object>.fromOpaque(pointer)`.
    private func unmanaged(_ expression: ExprSyntax) -> String? {
        guard let call = expression.as(FunctionCallExprSyntax.self),
            let access = call.calledExpression.as(MemberAccessExprSyntax.self),
            let generic = access.base?.as(GenericSpecializationExprSyntax.self),
            generic.expression.trimmedDescription == "Unmanaged"
        else { return nil }
        return generic.genericArgumentClause.arguments.first?.argument.trimmedDescription
    }

    /// Whether an expression is a chain with a question mark, so that its value is optional.
    func isChain(_ expression: ExprSyntax) -> Bool {
        switch expression.as(ExprSyntaxEnum.self) {
        case .optionalChainingExpr: true
        case .memberAccessExpr(let access): access.base.map(isChain) ?? false
        case .functionCallExpr(let call): isChain(call.calledExpression)
        case .subscriptCallExpr(let call): isChain(call.calledExpression)
        case .forceUnwrapExpr: false
        default: false
        }
    }

    // MARK: - Members and functions

    private func member(_ name: String, of members: MemberBlockItemListSyntax, depth: Int) -> ValueType? {
        for item in members {
            guard let variable = item.decl.as(VariableDeclSyntax.self) else { continue }
            for binding in variable.bindings where binding.pattern.trimmedDescription == name {
                return type(of: binding, depth: depth + 1)
            }
        }
        return nil
    }

    private func member(_ name: String, ofType typeName: String, depth: Int) -> ValueType? {
        guard let members = declarations.members[typeName] else { return nil }
        return members.lazy.compactMap { member(name, of: $0, depth: depth + 1) }.first
    }

    private func enclosingMembers(of node: Syntax) -> MemberBlockItemListSyntax? {
        var node = node.parent
        while let current = node {
            if let members = current.as(MemberBlockItemListSyntax.self) { return members }
            node = current.parent
        }
        return nil
    }

    /// The type that its surroundings give to an expression, such as `.init()`; nil when the file does not say it.
    func expectedType(of expression: ExprSyntax) -> ValueType? {
        guard let parent = expression.parent else { return nil }
        if let clause = parent.as(InitializerClauseSyntax.self) {
            let type =
                clause.parent?.as(PatternBindingSyntax.self)?.typeAnnotation?.type
                ?? clause.parent?.as(FunctionParameterSyntax.self)?.type
            return type.flatMap { ValueType($0) }
        }
        if let element = parent.as(LabeledExprSyntax.self) { return parameterType(of: element) }
        if let list = parent.as(ExprListSyntax.self) {
            // `port = .init()`, and `port ?? .init()`.
            let elements = Array(list)
            guard let index = elements.firstIndex(where: { $0.id == expression.id }), index >= 2 else { return nil }
            let isKnown =
                elements[index - 1].is(AssignmentExprSyntax.self) || elements[index - 1].trimmedDescription == "??"
            return isKnown ? type(of: elements[index - 2])?.wrapped : nil
        }
        let isResult =
            parent.is(ReturnStmtSyntax.self)
            || parent.as(CodeBlockItemSyntax.self)?.parent?.as(CodeBlockItemListSyntax.self)?.count == 1
        return isResult ? resultType(around: parent) : nil
    }

    /// The type of the parameter for an argument, if the file has the function.
    private func parameterType(of argument: LabeledExprSyntax) -> ValueType? {
        guard let arguments = argument.parent?.as(LabeledExprListSyntax.self),
            let call = arguments.parent?.as(FunctionCallExprSyntax.self)
        else { return nil }
        let access = call.calledExpression.as(MemberAccessExprSyntax.self)
        // Another type may have a function of the same name.
        if let access, access.base?.trimmedDescription != "self" { return nil }
        let name = access?.declName.baseName.text ?? call.calledExpression.trimmedDescription
        guard let index = arguments.firstIndex(of: argument) else { return nil }
        let place = arguments.distance(from: arguments.startIndex, to: index)
        let label = argument.label?.text ?? "_"
        let types = (declarations.functions[name] ?? []).map { function -> ValueType? in
            let parameters = Array(function.signature.parameterClause.parameters)
            guard parameters.indices.contains(place), parameters[place].firstName.text == label else { return nil }
            return ValueType(parameters[place].type)
        }
        guard let first = types.first, types.allSatisfy({ $0 == first }) else { return nil }
        return first
    }

    /// The type that the innermost function, accessor or variable around a node returns.
    private func resultType(around node: Syntax) -> ValueType? {
        var node = node.parent
        while let current = node {
            if current.is(ClosureExprSyntax.self) { return nil }
            if let function = current.as(FunctionDeclSyntax.self) {
                return function.signature.returnClause.flatMap { ValueType($0.type) }
            }
            if let binding = current.as(PatternBindingSyntax.self) {
                return binding.typeAnnotation.flatMap { ValueType($0.type) }
            }
            node = current.parent
        }
        return nil
    }

    /// The type that the functions of a name return, if all of the file's return the same.
    private func function(_ name: String) -> ValueType? {
        let results = (declarations.functions[name] ?? []).map { function in
            function.signature.returnClause.flatMap { ValueType($0.type) }
        }
        guard let first = results.first, results.allSatisfy({ $0 == first }) else { return nil }
        return first
    }

    private func type(of binding: PatternBindingSyntax, depth: Int) -> ValueType? {
        if let annotation = binding.typeAnnotation { return ValueType(annotation.type) }
        return binding.initializer.flatMap { type(of: $0.value, depth: depth + 1) }
    }

    // MARK: - Names

    /// The type of a variable or parameter, by the innermost declaration around the node.
    private func type(of name: String, from node: Syntax, depth: Int) -> ValueType? {
        guard depth < 8 else { return nil }
        var child = node
        while let parent = child.parent {
            defer { child = parent }
            if let items = parent.as(CodeBlockItemListSyntax.self) {
                let isFile = items.parent?.is(SourceFileSyntax.self) == true
                for item in items.reversed()
                where item.position < child.position || (isFile && item.id != child.as(CodeBlockItemSyntax.self)?.id) {
                    if let variable = item.item.as(VariableDeclSyntax.self) {
                        for binding in variable.bindings where binding.pattern.trimmedDescription == name {
                            return type(of: binding, depth: depth + 1)
                        }
                    } else if let found = guarded(name, item, depth) {
                        return found.type
                    }
                }
            } else if let conditions = parent.as(ConditionElementListSyntax.self) {
                if let found = bound(name, conditions, before: child.position, depth) { return found.type }
            } else if let statement = parent.as(IfExprSyntax.self), child.id == Syntax(statement.body).id {
                if let found = bound(name, statement.conditions, before: child.position, depth) { return found.type }
            } else if let statement = parent.as(WhileStmtSyntax.self), child.id == Syntax(statement.body).id {
                if let found = bound(name, statement.conditions, before: child.position, depth) { return found.type }
            } else if let closure = parent.as(ClosureExprSyntax.self) {
                if let found = parameter(name, closure, depth) { return found.type }
            } else if let parameters = parent.as(FunctionDeclSyntax.self)?.signature.parameterClause.parameters
                ?? parent.as(InitializerDeclSyntax.self)?.signature.parameterClause.parameters
                ?? parent.as(SubscriptDeclSyntax.self)?.parameterClause.parameters
            {
                for parameter in parameters where (parameter.secondName ?? parameter.firstName).text == name {
                    return ValueType(parameter.type)
                }
            } else if let loop = parent.as(ForStmtSyntax.self), loop.pattern.trimmedDescription == name {
                return nil
            } else if let members = parent.as(MemberBlockItemListSyntax.self) {
                if let found = member(name, of: members, depth: depth + 1) { return found }
            }
        }
        return nil
    }

    /// A declaration of which the type may be unknown: then no outer declaration counts.
    private struct Found { var type: ValueType? }

    private func guarded(_ name: String, _ item: CodeBlockItemSyntax, _ depth: Int) -> Found? {
        guard let statement = item.item.as(GuardStmtSyntax.self) else { return nil }
        return bound(name, statement.conditions, before: statement.endPosition, depth)
    }

    private func bound(
        _ name: String, _ conditions: ConditionElementListSyntax, before end: AbsolutePosition, _ depth: Int
    ) -> Found? {
        for element in conditions.reversed() where element.endPosition <= end {
            guard let binding = element.condition.as(OptionalBindingConditionSyntax.self),
                binding.pattern.trimmedDescription == name
            else { continue }
            if let annotation = binding.typeAnnotation { return Found(type: ValueType(annotation.type)) }
            if let value = binding.initializer?.value {
                return Found(type: type(of: value, depth: depth + 1)?.wrapped)
            }
            return Found(type: type(of: name, from: Syntax(element), depth: depth + 1)?.wrapped)
        }
        return nil
    }

    private func parameter(_ name: String, _ closure: ClosureExprSyntax, _ depth: Int) -> Found? {
        let types = contextualParameters(of: closure, depth)
        func contextual(_ index: Int) -> Found {
            Found(type: types.indices.contains(index) ? types[index] : nil)
        }
        switch closure.signature?.parameterClause {
        case .simpleInput(let list):
            for (index, parameter) in list.enumerated() where parameter.name.text == name { return contextual(index) }
        case .parameterClause(let clause):
            for (index, parameter) in clause.parameters.enumerated()
            where (parameter.secondName ?? parameter.firstName).text == name {
                return parameter.type.map { Found(type: ValueType($0)) } ?? contextual(index)
            }
        case nil:
            if name.hasPrefix("$"), let index = Int(name.dropFirst()) { return contextual(index) }
        }
        return nil
    }

    /// The types of a closure's parameters, by where the closure is.
    private func contextualParameters(of closure: ClosureExprSyntax, _ depth: Int) -> [ValueType?] {
        if let clause = closure.parent?.as(InitializerClauseSyntax.self),
            let binding = clause.parent?.as(PatternBindingSyntax.self),
            let type = binding.typeAnnotation.flatMap({ ValueType($0.type) })
        {
            return CoreFoundationFunctions.parameters(ofCallback: type.name)
        }
        let argument = closure.parent?.as(LabeledExprSyntax.self)?.parent?.parent ?? closure.parent
        guard let call = argument?.as(FunctionCallExprSyntax.self) else { return [] }
        if let reference = call.calledExpression.as(DeclReferenceExprSyntax.self) {
            return CoreFoundationFunctions.parameters(ofCallbackIn: reference.baseName.text)
        }
        guard let access = call.calledExpression.as(MemberAccessExprSyntax.self), let base = access.base,
            ["map", "flatMap"].contains(access.declName.baseName.text)
        else { return [] }
        return [type(of: base, depth: depth + 1)?.wrapped]
    }
}
