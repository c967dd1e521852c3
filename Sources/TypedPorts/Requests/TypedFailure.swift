import Ports

// The errors of handlers that askers can catch as they are.

extension RequestFailure {
    /// A handler's error as it travels. One that cannot be encoded travels as its description.
    init(_ error: some Error & Encodable, _ coder: any MessageCoder) {
        self.init("\(error)")
        var (bytes, attachments) = ([] as [UInt8], Attachments())
        if (try? coder.encode(error, into: &bytes, attachments: &attachments)) != nil { data = bytes }
    }

    /// The handler's error; nil when this is none.
    func decoded<Failure: Error & Decodable>(as type: Failure.Type, _ coder: any MessageCoder) -> Failure? {
        guard type != Never.self, let data else { return nil }
        return try? coder.decode(type, from: data.span.bytes, attachments: Attachments())
    }
}
