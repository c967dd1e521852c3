import Glibc

/// The URL of a NATS server, in parts.
struct ServerURL: Sendable {
    let isTLS: Bool
    let host: String
    let port: Int
    /// Between the scheme and the host.
    private let user: String?

    init(_ text: String) throws(NATSError) {
        var rest = text[...]
        var isTLS = false
        if let end = text.firstRange(of: "://") {
            switch text[..<end.lowerBound] {
            case "nats": break
            case "tls": isTLS = true
            default: throw .badURL(Self.withoutUser(text))
            }
            rest = text[end.upperBound...]
        }
        var user: String?
        if let at = rest.lastIndex(of: "@") {
            user = String(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        while rest.hasSuffix("/") { rest = rest.dropLast() }
        var (host, port) = (rest, 4222)
        // In an address of IPv6, the colons are between brackets.
        if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
            guard let number = UInt16(rest[rest.index(after: colon)...]), number > 0 else {
                throw .badURL(Self.withoutUser(text))
            }
            (host, port) = (rest[..<colon], Int(number))
        }
        guard !host.isEmpty, !host.contains("/"), !host.contains(" ") else { throw .badURL(Self.withoutUser(text)) }
        (self.isTLS, self.host, self.port, self.user) = (isTLS, String(host), port, user)
    }

    var hasUser: Bool { user != nil }

    /// The user in an error, without the password; nil without a user.
    var identity: String? {
        user.map { user in
            user.firstIndex(of: ":").map { "the user “\(user[..<$0])”" } ?? "the token of the URL"
        }
    }

    /// The URL without the user and the password.
    var text: String { "\(isTLS ? "tls" : "nats")://\(host):\(port)" }

    /// The URL for libnats, to which the options say the rest.
    var full: String { "nats://\(user.map { "\($0)@" } ?? "")\(host):\(port)" }

    /// Whether the server is on this machine. Names other than `localhost` count as those of other machines, whatever
    /// their addresses are at the moment.
    var isLoopback: Bool {
        if host.lowercased() == "localhost" { return true }
        var (four, six) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, host, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 127 }
        let inner = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        guard inet_pton(AF_INET6, inner, &six) == 1 else { return false }
        return withUnsafeBytes(of: six) { $0.dropLast().allSatisfy { $0 == 0 } && $0.last == 1 }
    }

    private static func withoutUser(_ text: String) -> String {
        guard let at = text.lastIndex(of: "@") else { return text }
        return "…" + text[at...]
    }
}
