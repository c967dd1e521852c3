/// The reason why a server has not replied to a request. A handler throws a failure to choose what the asker learns
/// from ``PortError``, which contains it as `failed`. Any other error that a handler throws becomes a failure with the
/// error's description.
public struct RequestFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, as a sentence.
    public var text: String
    /// Further data for the asking program.
    public var data: [UInt8]?
    /// Whether the server has no handler for the request. Then the data is a text of the requests that it has handlers
    /// for.
    package private(set) var isUnknownRequest = false
    /// The id of the failure's message. A received failure that a handler throws counts as that handler's own.
    package private(set) var id = ID.failed
    /// Whether the library has found the failure, so that no handler has chosen it as an answer.
    private(set) var isFault = false

    /// Makes a failure.
    /// - Parameters:
    ///   - text: The reason, as a sentence.
    ///   - data: Further data for the asking program.
    public init(_ text: String, data: [UInt8]? = nil) {
        self.text = text
        self.data = data
    }

    /// Makes a failure that the library has found.
    package init(fault text: String, data: [UInt8]? = nil, id: ID = .failed) {
        self.init(text, data: data)
        (self.id, isFault, isUnknownRequest) = (id, true, id == .unknownRequest)
    }

    /// Makes the failure of a request whose lane is full.
    init(busy limit: Int) {
        self.init(
            fault: "the server already handles \(limit) requests of this kind, and lets no more wait",
            data: withUnsafeBytes(of: UInt64(limit).littleEndian, Array.init), id: .busy)
    }

    /// The sentence.
    public var description: String { text }

    /// The components of the failure's message.
    package var components: [[UInt8]] { [Array(text.utf8)] + (data.map { [$0] } ?? []) }

    /// Reads the components of a failure's message.
    package init(components: [[UInt8]], isUnknownRequest: Bool = false) {
        self.isUnknownRequest = isUnknownRequest
        text = String(decoding: components.first ?? [], as: UTF8.self)
        data = components.count > 1 ? components[1] : nil
    }

    /// The ids of failures on the wire.
    package enum ID: UInt32, Sendable {
        /// The components are the text and the data.
        case failed = 0
        /// The component is the reply's size and the asker's limit, two UInt64.
        case replyTooLarge
        /// As `failed`: the server has no handler for the request, and the data says which it has.
        case unknownRequest
        /// As `failed`: the server handles as many requests of the kind as it may. The data is that number, a UInt64.
        case busy
    }
}

/// A decoded failure does not say whether the library or a handler has made it, like any other received failure.
extension RequestFailure: Codable {
    private enum CodingKeys: CodingKey { case text, data, isUnknownRequest }
}
