import SwiftSyntax

/// A value's type, as its file says it: its name, and whether it is optional.
struct ValueType: Equatable {
    enum Optionality { case none, optional, implicit }

    var name: String
    var optionality = Optionality.none
    /// The name of a generic type's only argument.
    var argument: String?

    var wrapped: ValueType { ValueType(name: name, argument: argument) }

    func optional(_ optionality: Optionality = .optional) -> ValueType {
        ValueType(name: name, optionality: optionality, argument: argument)
    }

    init(name: String, optionality: Optionality = .none, argument: String? = nil) {
        (self.name, self.optionality, self.argument) = (name, optionality, argument)
    }

    /// Nil for a type without a name, as a tuple or a function.
    init?(_ type: TypeSyntax) {
        if let optional = type.as(OptionalTypeSyntax.self) {
            guard let wrapped = ValueType(optional.wrappedType) else { return nil }
            self = wrapped.optional()
        } else if let implicit = type.as(ImplicitlyUnwrappedOptionalTypeSyntax.self) {
            guard let wrapped = ValueType(implicit.wrappedType) else { return nil }
            self = wrapped.optional(.implicit)
        } else if let attributed = type.as(AttributedTypeSyntax.self) {
            self.init(attributed.baseType)
        } else if let member = type.as(MemberTypeSyntax.self) {
            self.init(name: member.name.text, argument: Self.argument(member.genericArgumentClause))
        } else if let identifier = type.as(IdentifierTypeSyntax.self) {
            let argument = Self.argument(identifier.genericArgumentClause)
            if identifier.name.text == "Optional", let argument {
                self.init(name: argument, optionality: .optional)
            } else {
                self.init(name: identifier.name.text, argument: argument)
            }
        } else if let tuple = type.as(TupleTypeSyntax.self), let only = tuple.elements.first, tuple.elements.count == 1
        {
            self.init(only.type)
        } else {
            return nil
        }
    }

    private static func argument(_ clause: GenericArgumentClauseSyntax?) -> String? {
        guard let clause, clause.arguments.count == 1 else { return nil }
        return clause.arguments.first?.argument.trimmedDescription
    }

    /// Whether the value is an object of CoreFoundation's.
    var isCoreFoundation: Bool { name.hasPrefix("CF") && name.dropFirst(2).first?.isUppercase == true }
}
