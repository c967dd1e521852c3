import Glibc

/// The registry's entry of one name: a small text file, one fact a line.
struct NameEntry: Sendable, Equatable {
    static let version = 1
    /// The longest name in bytes.
    static let longestName = 255

    let name: String
    let pid: pid_t
    /// The start of the owner's process, in clock ticks after the machine's start: it tells a pid from its reuse.
    let startTime: UInt64
    let right: WireRight
    /// The time of the registration, in seconds since 1970.
    var since = 0

    init(name: String, right: WireRight) {
        self.name = name
        self.right = right
        pid = getpid()
        startTime = ProcessStatus.startTime(of: pid) ?? 0
    }

    /// The folder of a name's entry. That of a long name ends in a digest; the entry itself has the whole name.
    static func fileName(for name: String) throws(PortError) -> String {
        let count = name.utf8.count
        guard count > 0 else { throw .badName(name, reason: "it is empty") }
        guard count <= longestName else {
            throw .badName(name, reason: "it has \(count) bytes, and \(longestName) is the most")
        }
        guard !name.utf8.contains(0) else { throw .badName(name, reason: "it contains a NUL") }
        var encoded = percentEncoded(name)
        // Neither the directory itself, nor the one above it.
        if encoded.hasPrefix(".") { encoded = "%2e" + encoded.dropFirst() }
        guard encoded.utf8.count > 200 else { return encoded }
        // FNV-1a with 128 bits.
        var digest: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
        for byte in name.utf8 { digest = (digest ^ UInt128(byte)) &* 0x0000_0000_0100_0000_0000_0000_0000_013b }
        return encoded.prefix(160) + "~" + String(digest, radix: 16)
    }

    // MARK: The text

    var bytes: [UInt8] {
        Array(
            """
            ports-name \(Self.version)
            name \(Self.percentEncoded(name))
            pid \(pid)
            start \(startTime)
            process \(right.id.incarnation)
            port \(right.id.number)
            queue \(right.queueLimit)
            limit \(right.limit)
            bytes \(right.byteLimit)
            directory \(Self.percentEncoded(right.path))

            """.utf8)
    }

    init(_ bytes: [UInt8], path: String) throws(PortError) {
        let malformed = PortError.untrustedDirectory(path, reason: "it is not a name's entry; remove it")
        guard let text = String(validating: bytes, as: UTF8.self) else { throw malformed }
        var facts: [Substring: Substring] = [:]
        for line in text.split(separator: "\n") {
            guard let space = line.firstIndex(of: " ") else { throw malformed }
            facts[line[..<space]] = line[line.index(after: space)...]
        }
        guard let version = facts["ports-name"].flatMap({ Int($0) }) else { throw malformed }
        guard version == Self.version else {
            throw .incompatibleVersion(what: "the registry entry \(path)", ours: Self.version, theirs: version)
        }
        guard let name = facts["name"].flatMap(Self.percentDecoded), (try? Self.fileName(for: name)) != nil,
            let pid = facts["pid"].flatMap({ pid_t($0) }),
            let startTime = facts["start"].flatMap({ UInt64($0) }),
            let incarnation = facts["process"].flatMap({ Incarnation($0) }),
            let number = facts["port"].flatMap({ UInt64($0) }),
            let queue = facts["queue"].flatMap({ UInt32($0) }),
            let limit = facts["limit"].flatMap({ Int($0) }), limit >= 0,
            let byteLimit = facts["bytes"].flatMap({ Int($0) }), byteLimit >= 0,
            let directory = facts["directory"].flatMap(Self.percentDecoded), WireRight.isDirectory(directory.utf8)
        else { throw malformed }
        self.name = name
        self.pid = pid
        self.startTime = startTime
        right = WireRight(
            id: PortID(incarnation: incarnation, number: number), queueLimit: queue, limit: limit,
            byteLimit: byteLimit, path: directory)
    }

    private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_".utf8)

    static func percentEncoded(_ text: String) -> String {
        text.utf8.reduce(into: "") { encoded, byte in
            if plain.contains(byte) {
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                encoded += (byte < 16 ? "%0" : "%") + String(byte, radix: 16)
            }
        }
    }

    static func percentDecoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte != UInt8(ascii: "%") {
                guard plain.contains(byte) else { return nil }
                bytes.append(byte)
            } else {
                let digits = rest.prefix(2)
                guard digits.count == 2, let decoded = UInt8(Substring(digits), radix: 16) else { return nil }
                bytes.append(decoded)
                rest = rest.dropFirst(2)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
