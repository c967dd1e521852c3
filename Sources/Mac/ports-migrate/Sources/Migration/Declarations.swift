import SwiftParser
import SwiftSyntax

/// The names by which the files of a program change one another's meaning.
public struct ProgramNames: Sendable, Equatable {
    /// The names of the types that it declares.
    public private(set) var types: Set<String> = []
    /// Whether it says what stands for requirements of signatures.
    public private(set) var replacesSignatures = false

    /// The names of no file.
    public init() {}

    /// The names in a file's text; none when the text is no Swift.
    public init(in source: String) { self.init(Declarations(in: Parser.parse(source: source))) }

    init(_ declarations: Declarations) {
        (types, replacesSignatures) = (declarations.types, declarations.replacesSignatures)
    }

    /// Adds the names of another file.
    public mutating func add(_ other: ProgramNames) {
        types.formUnion(other.types)
        if other.replacesSignatures { replacesSignatures = true }
    }
}

/// The declarations of a file, by name.
final class Declarations: SyntaxVisitor {
    private(set) var types: Set<String> = []
    /// The types that have further names.
    private(set) var aliases: [String: TypeSyntax] = [:]
    private(set) var members: [String: [MemberBlockItemListSyntax]] = [:]
    private(set) var functions: [String: [FunctionDeclSyntax]] = [:]
    private(set) var replacesSignatures = false

    init(in node: some SyntaxProtocol) {
        super.init(viewMode: .sourceAccurate)
        walk(node)
    }

    private func add(_ name: TokenSyntax, _ block: MemberBlockSyntax) -> SyntaxVisitorContinueKind {
        types.insert(name.text)
        members[name.text, default: []].append(block.members)
        return .visitChildren
    }

    override func visit(_ node: ClassDeclSyntax) -> SyntaxVisitorContinueKind { add(node.name, node.memberBlock) }
    override func visit(_ node: StructDeclSyntax) -> SyntaxVisitorContinueKind { add(node.name, node.memberBlock) }
    override func visit(_ node: EnumDeclSyntax) -> SyntaxVisitorContinueKind { add(node.name, node.memberBlock) }
    override func visit(_ node: ActorDeclSyntax) -> SyntaxVisitorContinueKind { add(node.name, node.memberBlock) }
    override func visit(_ node: ProtocolDeclSyntax) -> SyntaxVisitorContinueKind { add(node.name, node.memberBlock) }

    override func visit(_ node: TypeAliasDeclSyntax) -> SyntaxVisitorContinueKind {
        types.insert(node.name.text)
        aliases[node.name.text] = node.initializer.value
        return .skipChildren
    }

    override func visit(_ node: ExtensionDeclSyntax) -> SyntaxVisitorContinueKind {
        members[node.extendedType.trimmedDescription, default: []].append(node.memberBlock.members)
        return .visitChildren
    }

    override func visit(_ node: FunctionCallExprSyntax) -> SyntaxVisitorContinueKind {
        if node.calledExpression.as(MemberAccessExprSyntax.self)?.declName.baseName.text == "replaceSignatures" {
            replacesSignatures = true
        }
        return .visitChildren
    }

    override func visit(_ node: FunctionDeclSyntax) -> SyntaxVisitorContinueKind {
        functions[node.name.text, default: []].append(node)
        return .visitChildren
    }
}
