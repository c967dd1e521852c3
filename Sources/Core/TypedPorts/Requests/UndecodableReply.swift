extension DecodingError {
    /// The remedy when one side cannot decode a message of the other.
    static var remedy: String { "build server and client from the same sources, with the same coder" }

    /// The same error, whose text also names the undecodable message and the remedy.
    func of(_ what: String) -> DecodingError {
        func noting(_ context: Context) -> Context {
            Context(
                codingPath: context.codingPath,
                debugDescription: "\(what): \(context.debugDescription); \(Self.remedy)",
                underlyingError: context.underlyingError)
        }
        return switch self {
        case .typeMismatch(let type, let context): .typeMismatch(type, noting(context))
        case .valueNotFound(let type, let context): .valueNotFound(type, noting(context))
        case .keyNotFound(let key, let context): .keyNotFound(key, noting(context))
        case .dataCorrupted(let context): .dataCorrupted(noting(context))
        @unknown default: self
        }
    }
}
