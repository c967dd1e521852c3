import SwiftSyntax

/// The declarations of a file, by name.
final class Declarations: SyntaxVisitor {
    private(set) var types: Set<String> = []
    /// The types that have further names.
    private(set) var aliases: [String: TypeSyntax] = [:]
    private(set) var members: [String: [MemberBlockItemListSyntax]] = [:]
    private(set) var functions: [String: [FunctionDeclSyntax]] = [:]

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

    override func visit(_ node: FunctionDeclSyntax) -> SyntaxVisitorContinueKind {
        functions[node.name.text, default: []].append(node)
        return .visitChildren
    }
}
