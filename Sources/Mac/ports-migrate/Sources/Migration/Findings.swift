import SwiftSyntax

/// A place that a person has to look at, and what to do there.
public struct Remark: Sendable, Equatable {
    /// Lines and columns begin at 1. A column counts bytes, as the compiler's do.
    public let line, column: Int
    /// The sentence that says what is there, and what to do.
    public let text: String
}

/// The result of one pass over a file: the changes to make, and the places that are left.
struct Findings {
    var edits = Edits()
    private(set) var remarks: [(offset: Int, text: String)] = []
    /// The modules that the changed file needs.
    var modules: Set<String> = []

    mutating func remark(_ node: some SyntaxProtocol, _ text: String) {
        remarks.append((node.positionAfterSkippingLeadingTrivia.utf8Offset, text))
    }
}

extension SyntaxProtocol {
    /// The bytes of the node without the space and comments around it.
    var range: Range<Int> {
        positionAfterSkippingLeadingTrivia.utf8Offset..<endPositionBeforeTrailingTrivia.utf8Offset
    }
}

extension Trivia {
    var isSpace: Bool {
        allSatisfy { piece in
            switch piece {
            case .spaces, .tabs, .newlines, .carriageReturns, .carriageReturnLineFeeds: true
            default: false
            }
        }
    }
}
