import CBOR

/// Codes the elements of a batch. With CBOR, they are a series.
struct ElementCoder: Sendable {
    private let coder: any MessageCoder
    private let attachments: Attachments
    private var series: CBORSeries?

    /// - Parameter attachments: The attachments of the batch. The elements share what is appended.
    init(_ coder: any MessageCoder, _ attachments: Attachments) {
        (self.coder, self.attachments) = (coder, attachments)
        series = (coder as? CBORCoder)?.series(with: attachments)
    }

    mutating func encode(_ element: some Encodable, into bytes: inout [UInt8]) throws {
        if try series?.encode(element, into: &bytes) != nil { return }
        var attachments = attachments
        try coder.encode(element, into: &bytes, attachments: &attachments)
    }

    mutating func decode<Element: Decodable>(_ type: Element.Type, from bytes: RawSpan) throws -> Element {
        if let element = try series?.decode(type, from: bytes) { return element }
        return try coder.decode(type, from: bytes, attachments: attachments)
    }
}
