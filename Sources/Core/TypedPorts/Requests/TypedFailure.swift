import Ports

// The errors of handlers that askers can catch as they are.

extension NamedRequest {
    /// The error to send for a handler's error: a failure with the error in it, if the request declares its type.
    static func sentError(_ error: any Error, _ coder: any MessageCoder) -> any Error {
        (error as? Failure).map { RequestFailure($0, coder) } ?? error
    }
}

extension RequestFailure {
    /// The failure with the error in it. If the error cannot be encoded, only its description is in it.
    fileprivate init(_ error: some Error & Encodable, _ coder: any MessageCoder) {
        self.init("\(error)")
        var (bytes, attachments) = ([] as [UInt8], Attachments())
        do {
            try coder.encode(error, into: &bytes, attachments: &attachments)
            guard attachments.components.isEmpty else {
                log.warning(
                    once: "attachments of errors",
                    "a \(type(of: error)) is sent as a text: an error takes no port, descriptor or memory")
                return
            }
            data = bytes
        } catch {
            log.warning(
                once: "errors to encode",
                "an error of a handler is sent as a text, because it cannot be encoded: \(error)")
        }
    }

    /// The handler's error; nil when the failure holds no error of this type.
    func decoded<Failure: Error & Decodable>(as type: Failure.Type, _ coder: any MessageCoder) -> Failure? {
        guard type != Never.self, let data else { return nil }
        do { return try coder.decode(type, from: data.span.bytes, attachments: Attachments()) } catch {
            log.warning(once: "errors to decode", "the error of a handler is no \(String(reflecting: type)): \(error)")
            return nil
        }
    }
}
