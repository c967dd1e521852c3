import Foundation

/// A pair of keys of NATS, made by openssl. It signs claims, as the command `nsc` does.
struct NATSKey {
    /// The purpose of a key, as the first byte of its text. An authority is an operator of NATS.
    enum Role: UInt8 {
        case authority = 112
        case account = 0
        case user = 160
    }

    /// The text of the public key.
    let name: String
    /// The text of the private key.
    let seed: String
    private let file: String

    /// - Parameter folder: Keeps the key's file.
    init(_ role: Role, in folder: String) throws {
        file = "\(folder)/\(UUID().uuidString).pem"
        try openssl(["genpkey", "-algorithm", "ed25519", "-out", file])
        // The last bytes of both forms are the key.
        let secret = try openssl(["pkey", "-in", file, "-outform", "DER"]).suffix(32)
        let open = try openssl(["pkey", "-in", file, "-pubout", "-outform", "DER"]).suffix(32)
        name = Self.text([role.rawValue] + open)
        // The five bits of the role lie across two bytes, behind the five bits of “S”.
        seed = Self.text([144 | role.rawValue >> 5, (role.rawValue & 31) << 3] + secret)
    }

    /// Claims about a subject, with this key's signature.
    func token(_ subject: NATSKey, _ claims: [String: Any], expires: Date? = nil) throws -> String {
        var all: [String: Any] = [
            "jti": UUID().uuidString, "iat": Int(Date().timeIntervalSince1970) - 100, "iss": name, "sub": subject.name,
            "name": "test", "nats": claims.merging(["version": 2]) { $1 },
        ]
        if let expires { all["exp"] = Int(expires.timeIntervalSince1970) }
        let parts = [["typ": "JWT", "alg": "ed25519-nkey"], all]
        let signed = try parts.map { Self.base64(try JSONSerialization.data(withJSONObject: $0)) }
            .joined(separator: ".")
        let input = file + ".claims"
        try signed.write(toFile: input, atomically: true, encoding: .utf8)
        let signature = try openssl(["pkeyutl", "-sign", "-rawin", "-in", input, "-inkey", file])
        return "\(signed).\(Self.base64(signature))"
    }

    private static func base64(_ data: Data) -> String {
        data.base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    /// Base 32, with a checksum at the end.
    private static func text(_ bytes: [UInt8]) -> String {
        var checksum: UInt16 = 0
        for byte in bytes {
            checksum ^= UInt16(byte) << 8
            for _ in 0..<8 { checksum = checksum & 0x8000 != 0 ? checksum << 1 ^ 0x1021 : checksum << 1 }
        }
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
        var (text, bits, count) = ("", 0 as UInt32, 0)
        for byte in bytes + [UInt8(checksum & 255), UInt8(checksum >> 8)] {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 5 {
                count -= 5
                text.append(letters[Int(bits >> UInt32(count) & 31)])
            }
        }
        if count > 0 { text.append(letters[Int(bits << UInt32(5 - count) & 31)]) }
        return text
    }
}

/// An operator with one account, whose users a server of NATS lets in.
struct NATSAuthority {
    private let (owner, account): (NATSKey, NATSKey)
    private let folder: String

    init(in folder: String) throws {
        self.folder = folder
        owner = try NATSKey(.authority, in: folder)
        account = try NATSKey(.account, in: folder)
    }

    /// The lines of the server's configuration.
    var configuration: String {
        get throws {
            let limits = Dictionary(
                uniqueKeysWithValues: ["subs", "data", "payload", "imports", "exports", "conn", "leaf"].map { ($0, -1) }
            )
            let token = try owner.token(account, ["type": "account", "limits": limits])
            return """
                operator: \(try owner.token(owner, ["type": "operator"]))
                resolver: MEMORY
                resolver_preload: { \(account.name): \(token) }
                """
        }
    }

    /// Makes the file of a user's credentials.
    /// - Parameter claims: The permissions of the user.
    /// - Returns: The path.
    func credentials(_ name: String, expires: Date? = nil, claims: [String: Any] = [:]) throws -> String {
        let user = try NATSKey(.user, in: folder)
        let all = claims.merging(["type": "user", "subs": -1, "data": -1, "payload": -1]) { $1 }
        let token = try account.token(user, all, expires: expires)
        let path = "\(folder)/\(name).creds"
        try """
        -----BEGIN NATS USER JWT-----
        \(token)
        ------END NATS USER JWT------

        -----BEGIN USER NKEY SEED-----
        \(user.seed)
        ------END USER NKEY SEED------

        """.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }
}
