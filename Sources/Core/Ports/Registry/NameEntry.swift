import Glibc

/// The registry's entry of one name: a small text file, one fact a line.
struct NameEntry: Sendable, Hashable {
    static let version = 1
    static let longestName = 255

    let name: String
    let pid: pid_t
    /// The start time of the owner's process, in clock ticks since boot. It tells the process from a later one with the
    /// same pid.
    let startTime: UInt64
    /// The right to the port at its home.
    let right: WireRight
    /// The identity of the port, which differs from its home's after a move.
    let publicID: PortID
    /// False for a name of the library's own, which no list of services shows.
    let isService: Bool
    /// The time of the registration, in seconds since 1970.
    var since = 0

    init(name: String, right: WireRight, of publicID: PortID? = nil, isService: Bool = true) {
        self.name = name
        self.right = right
        self.publicID = publicID ?? right.id
        self.isService = isService
        pid = getpid()
        startTime = ProcessStatus.startTime(of: pid) ?? 0
    }

    /// The path of the owner's program; nil when the process has ended, also if another one has its pid.
    var program: String? { owner.program }

    /// The process that had the name when it was registered.
    var owner: Owner { Owner(pid: pid, startTime: startTime) }

    struct Owner: Hashable {
        let pid: pid_t
        let startTime: UInt64

        /// As ``NameEntry/program``.
        var program: String? {
            ProcessStatus.startTime(of: pid) == startTime ? ProcessStatus.program(of: pid) : nil
        }
    }

    /// The port that has the name.
    var port: PortIdentity { port(ofProgram: program) }

    func port(ofProgram path: String?) -> PortIdentity {
        PortIdentity(publicID, name: name, owner: ProcessIdentity(pid: pid, path: path))
    }

    /// The folder of a name's entry. For a long name, it ends in a digest, and the entry itself has the whole name.
    /// - Throws: ``PortError``: `badName`.
    static func fileName(for name: String) throws(PortError) -> String {
        let count = name.utf8.count
        guard count > 0 else { throw .badName(name, reason: "it is empty") }
        if count > longestName { throw .badName(name, reason: "it has \(count) bytes, and \(longestName) is the most") }
        guard !name.utf8.contains(0) else { throw .badName(name, reason: "it contains a NUL") }
        var encoded = percentEncoded(name)
        // “.” would be the directory itself, and “..” its parent.
        if encoded.hasPrefix(".") { encoded = "%2e" + encoded.dropFirst() }
        guard encoded.utf8.count > 200 else { return encoded }
        // FNV-1a with 128 bits.
        var digest: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
        for byte in name.utf8 { digest = (digest ^ UInt128(byte)) &* 0x0000_0000_0100_0000_0000_0000_0000_013b }
        return encoded.prefix(160) + "~" + String(digest, radix: 16)
    }

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

            """.utf8) + (publicID == right.id ? [] : Array("identity \(publicID.file)\n".utf8))
            + (isService ? [] : Array("role library\n".utf8))
    }

    /// Reads an entry.
    /// - Parameters:
    ///   - bytes: The file's content.
    ///   - path: The file's path, for errors.
    /// - Throws: ``PortError``: `untrustedDirectory` for a file that is no entry, `incompatibleVersion`.
    init(_ bytes: [UInt8], path: String) throws(PortError) {
        let malformed = PortError.untrustedDirectory(path, reason: "it is not a name's entry; remove it")
        guard let text = String(validating: bytes, as: UTF8.self) else { throw malformed }
        var facts = [Substring: Substring](minimumCapacity: 16)
        // By bytes: characters would take most of the time of a list of all names.
        for line in text.utf8.split(separator: UInt8(ascii: "\n")) {
            guard let space = line.firstIndex(of: UInt8(ascii: " ")) else { throw malformed }
            facts[Substring(line[..<space])] = Substring(line[line.index(after: space)...])
        }
        func fact<Fact>(_ name: Substring, _ read: (Substring) -> Fact?) throws(PortError) -> Fact {
            guard let fact = facts[name].flatMap(read) else { throw malformed }
            return fact
        }
        let version = try fact("ports-name") { Int($0) }
        guard version == Self.version else {
            throw .incompatibleVersion(what: "the registry entry \(path)", ours: Self.version, theirs: version)
        }
        name = try fact("name", Self.percentDecoded)
        pid = try fact("pid") { pid_t($0) }
        startTime = try fact("start") { UInt64($0) }
        right = WireRight(
            id: PortID(incarnation: try fact("process") { Incarnation($0) }, number: try fact("port") { UInt64($0) }),
            queueLimit: try fact("queue") { UInt32($0) }, limit: try fact("limit") { Int($0) },
            byteLimit: try fact("bytes") { Int($0) }, path: try fact("directory", Self.percentDecoded))
        publicID = try facts["identity"] == nil ? right.id : fact("identity") { PortID(file: $0) }
        isService = facts["role"] == nil
        guard (try? Self.fileName(for: name)) != nil, right.limit >= 0, right.byteLimit >= 0,
            WireRight.isDirectory(right.path.utf8)
        else { throw malformed }
    }

    /// Whether a byte of a text stands for itself: a letter, a digit, or one of `.-_`.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    static func percentEncoded(_ text: String) -> String {
        if text.utf8.allSatisfy(isPlain) { return text }
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            let digits = [UInt8(ascii: "%"), Hexadecimal.digit(byte >> 4), Hexadecimal.digit(byte & 15)]
            encoded += isPlain(byte) ? [byte] : digits
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Nil for all but the form that ``percentEncoded(_:)`` writes.
    static func percentDecoded(_ text: Substring) -> String? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(text.utf8.count)
        var rest = text.utf8.makeIterator()
        while let byte = rest.next() {
            if isPlain(byte) {
                decoded.append(byte)
                continue
            }
            guard byte == UInt8(ascii: "%"), let high = rest.next().flatMap(Hexadecimal.value),
                let low = rest.next().flatMap(Hexadecimal.value), !isPlain(high << 4 | low)
            else { return nil }
            decoded.append(high << 4 | low)
        }
        return String(validating: decoded, as: UTF8.self)
    }
}
