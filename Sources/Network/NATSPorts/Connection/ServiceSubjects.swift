/// The subjects of a service.
struct ServiceSubjects: Sendable {
    /// Of several servers, one gets each request.
    let requests: String
    /// Every server gets what is published here.
    let control: String

    init(_ name: String) throws(NATSError) {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        let isSubject = parts.allSatisfy { part in
            !part.isEmpty
                && part.utf8.allSatisfy {
                    switch $0 {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                        true
                    default: false
                    }
                }
        }
        guard isSubject, name.utf8.count <= 255, parts[0] != "_INBOX" else { throw .badName(name) }
        (requests, control) = (name, "\(name).$ports")
    }

    /// The subject of one server.
    func holder(_ id: String) -> String { "\(control).\(id)" }
}
