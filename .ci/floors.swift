// Checks that every use of a type or a member points to the same floor of its module, or down. A folder is a floor.
//
//     swift .ci/floors.swift [MODULE ...]
//
// Without a module, all modules below are checked. The script reads text, not Swift. A file uses a type that it names, a
// member that it names behind a dot, and a function that it calls without one. Only names that no file of the floors
// at and below the user, and no imported module, declares are checked, so an arrow up can hide behind a common name.

import Glibc

/// The floors of each module, the lowest first. "" is the module's own folder. A folder inside a folder belongs to the
/// floor of the outer one, unless it is listed. Folders of one line stand side by side and do not use each other.
let modules: [(name: String, floors: [[String]])] = [
    (
        "RunLoops",
        [
            ["Kernel"], ["Items"], ["Probes"], ["Passes"], [""], ["Threads"], ["Performing"], ["Sources"],
            ["Diagnostics"],
        ]
    ),
    (
        "Ports",
        [
            ["Wire"], ["System"], ["Carriers"], ["Control"], ["Registry"], ["Sending"], ["Statistics", "Arriving"],
            ["Handling"], ["Takers"], ["Receiving"], ["Requests"], ["Inspection"], ["Runtime"], [""], ["Moving"],
            ["Names"], ["CheckIn", "MessagePorts"],
        ]
    ),
    ("TypedPorts", [["Coding"], ["Requests"], ["Streams"], ["Callbacks", "CheckIn"], [""]]),
    ("XPC", [[""], ["Messages"], ["Session"], ["Listener"]]),
    ("NATSPorts", [["Wire"], ["Connection"], ["Asking", "Serving"], [""]]),
    ("PortsInspection", [[""]]),
    ("Workers", [["Supervision", "Output"], ["Worker"], ["Queue"], ["Pool"], [""]]),
    ("Activation", [["Files", "Messages"], ["Keeping", "Service"], [""]]),
    ("Systemd", [[""]]),
    (
        "CoreFoundationPorts",
        [["Objects"], [""], ["CFFileDescriptor", "CFMachPort", "CFMessagePort", "CFNotificationCenter"]]
    ),
    ("FoundationPorts", [["Loops"], ["Ports"], ["Names"], [""]]),
    ("portctl", [["Terminal"], ["Reports"], ["Drawing", "Options"], ["Commands"], [""]]),
]

/// Names of the standard library that the modules declare for something of their own, too.
let standard = Set(
    """
    Element append contains count description filter first forEach index insert isEmpty last map max min next prefix rawValue \
    remove removeAll removeFirst removeLast reserveCapacity sorted suffix take
    """.split(separator: " "))

/// Members of other types whose names a higher floor declares, too, by module: with the type of each.
let foreign: [String: [Substring: String]] = [
    "CoreFoundationPorts": ["address": "mach_msg_ool_descriptor_t"],
    "FoundationPorts": ["post": "NotificationCenter", "withUnsafeBytes": "RawSpan"],
    "Ports": ["control": "Unicode.GeneralCategory", "handler": "Logger"],
    "RunLoops": [
        "cancelAll": "TaskGroup", "events": "crl_event", "isDisjoint": "OptionSet", "poll": "Glibc", "read": "Glibc",
        "write": "Glibc",
    ],
    "portctl": ["format": "Unicode.GeneralCategory", "seconds": "Duration"],
]

// MARK: - Files

func text(of path: String) -> String {
    guard let file = fopen(path, "r") else { fatalError("\(path) cannot be read") }
    defer { fclose(file) }
    var (bytes, buffer) = ([] as [UInt8], [UInt8](repeating: 0, count: 1 << 16))
    while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
    return String(decoding: bytes, as: UTF8.self)
}

/// The names in a folder; nil when the path leads to no folder.
func names(in folder: String) -> [String]? {
    guard let directory = opendir(folder) else { return nil }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
        names.append(
            withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            })
    }
    return names.filter { !$0.hasPrefix(".") }.sorted()
}

/// The paths of the Swift files under a folder, relative to the folder.
func swiftFiles(under root: String, _ folder: String = "") -> [String] {
    (names(in: "\(root)/\(folder)") ?? []).flatMap { name in
        let path = folder.isEmpty ? name : "\(folder)/\(name)"
        return name.hasSuffix(".swift") ? [path] : swiftFiles(under: root, path)
    }
}

// MARK: - Words

/// A text as words and punctuation, without comments and without the literal parts of strings.
struct Scanner {
    private let bytes: [UInt8]
    private var index = 0
    private(set) var code: [UInt8] = []

    /// The code of a text: comments and literals are left out, interpolations stay.
    static func code(_ text: String) -> String {
        var scanner = Scanner(bytes: Array(text.utf8))
        scanner.scan(isInterpolation: false)
        return String(decoding: scanner.code, as: UTF8.self)
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private func starts(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard index + count <= bytes.count else { return false }
        for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] { return false }
        return true
    }

    private mutating func scan(isInterpolation: Bool) {
        var depth = 0
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "/"), starts("//") {
                while index < bytes.count, bytes[index] != UInt8(ascii: "\n") { index += 1 }
                continue
            }
            if byte == UInt8(ascii: "#"), starts("#\"") || starts("##\"") || starts("#/") {
                skipRaw()
                continue
            }
            if byte == UInt8(ascii: "\"") {
                skipString()
                continue
            }
            index += 1
            if byte == UInt8(ascii: "(") { depth += 1 }
            if byte == UInt8(ascii: ")") {
                if isInterpolation, depth == 0 { return }
                depth -= 1
            }
            code.append(byte)
        }
    }

    /// A raw string, or a regular expression in number signs.
    private mutating func skipRaw() {
        var end: [UInt8] = []
        while bytes[index] == UInt8(ascii: "#") {
            end.append(bytes[index])
            index += 1
        }
        end.insert(bytes[index], at: 0)
        index += 1
        while index < bytes.count, !bytes[index...].starts(with: end) { index += 1 }
        index += end.count
        code.append(UInt8(ascii: " "))
    }

    private mutating func skipString() {
        let isLong = starts("\"\"\"")
        index += isLong ? 3 : 1
        code.append(UInt8(ascii: " "))
        while index < bytes.count {
            if starts("\\(") {
                index += 2
                scan(isInterpolation: true)
                code.append(UInt8(ascii: " "))
            } else if bytes[index] == UInt8(ascii: "\\") {
                index += 2
            } else if isLong
                ? starts("\"\"\"") : bytes[index] == UInt8(ascii: "\"") || bytes[index] == UInt8(ascii: "\n")
            {
                index += isLong ? 3 : 1
                return
            } else {
                index += 1
            }
        }
    }
}

/// The names that a file uses, and those that it gives to variables, parameters and the like.
struct Uses {
    private(set) var types: Set<Substring> = []
    private(set) var members: Set<Substring> = []
    private(set) var calls: Set<Substring> = []
    private var locals: Set<Substring> = []
    /// The labels of tuples, which are used as members are.
    private var labels: Set<Substring> = []

    init(_ code: String) {
        let text = code.utf8
        var (index, word, dots) = (text.startIndex, Substring(), 0)
        /// The last two bytes that are no blanks, and for each open parenthesis, whether a tuple is in it.
        var (last, lastButOne, tuples) = (UInt8(0), UInt8(0), [] as [Bool])
        while index < text.endIndex {
            let byte = text[index]
            guard Self.isLetter(byte) else {
                dots = byte == UInt8(ascii: ".") ? dots + 1 : 0
                if byte == UInt8(ascii: "(") {
                    let isResult = last == UInt8(ascii: ">") && lastButOne == UInt8(ascii: "-")
                    tuples.append(isResult || ":=[,({<".utf8.contains(last))
                }
                if byte == UInt8(ascii: ")") { _ = tuples.popLast() }
                if byte != UInt8(ascii: " "), byte != UInt8(ascii: "\n") { (word, last, lastButOne) = ("", byte, last) }
                index = text.index(after: index)
                continue
            }
            let (start, before) = (index, word)
            while index < text.endIndex, Self.isLetter(text[index]) { index = text.index(after: index) }
            word = code[start..<index]
            let next = index < text.endIndex ? text[index] : 0
            if word.first?.isUppercase == true { types.insert(word) }
            if next == UInt8(ascii: ":"), tuples.last == true { labels.insert(word) }
            if ["let", "var", "func", "case"].contains(before) || next == UInt8(ascii: ":") {
                locals.insert(word)
            } else if dots == 1 {
                members.insert(word)
            } else if next == UInt8(ascii: "(") {
                calls.insert(word)
            }
            (dots, last, lastButOne) = (0, UInt8(ascii: "a"), last)
        }
        members.subtract(labels)
        calls.subtract(locals)
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

// MARK: - Declarations

/// The names that a file declares outside of functions. Their indentation tells, because `swift format` sets it.
struct Declarations {
    private(set) var types: Set<Substring> = []
    /// Members, and functions of no type.
    private(set) var members: Set<Substring> = []
    /// For other modules.
    private(set) var publicNames: Set<Substring> = []
    private(set) var privateNames: Set<Substring> = []
    private(set) var imports: Set<Substring> = []

    private struct Scope {
        let indentation: Int
        let isPublic: Bool
        /// Its members need no `public`.
        let lendsAccess: Bool
    }

    init(_ code: String) {
        var scopes: [Scope] = []
        for line in code.split(separator: "\n") {
            let indentation = line.utf8.prefix { $0 == UInt8(ascii: " ") }.count
            let line = line.dropFirst(indentation)
            if line.hasPrefix("}") || line.hasPrefix("#endif"), scopes.last?.indentation == indentation {
                scopes.removeLast()
            }
            guard indentation == (scopes.last.map { $0.indentation + 4 } ?? 0) else { continue }
            if line.hasPrefix("#if") {
                let (isPublic, lendsAccess) = scopes.last.map { ($0.isPublic, $0.lendsAccess) } ?? (false, false)
                scopes.append(Scope(indentation: indentation, isPublic: isPublic, lendsAccess: lendsAccess))
                continue
            }
            if let scope = declare(line, in: scopes.last, indentation) { scopes.append(scope) }
        }
    }

    private static let modifiers: Set<Substring> = [
        "static", "final", "mutating", "nonmutating", "borrowing", "consuming", "lazy", "weak", "unowned", "indirect",
        "override", "required", "convenience", "nonisolated", "open", "public", "package", "internal", "private",
        "fileprivate", "prefix", "infix", "postfix", "isolated", "dynamic", "optional", "class",
    ]

    /// - Returns: The scope that the line opens.
    private mutating func declare(_ line: Substring, in scope: Scope?, _ indentation: Int) -> Scope? {
        var words = line.split(separator: " ")[...]
        var access = scope?.lendsAccess == true && scope?.isPublic == true ? "public" : ""
        while let word = words.first {
            let modifier = word.prefix { $0 != "(" }
            guard modifier.hasPrefix("@") || Self.modifiers.contains(modifier) else { break }
            // A class of its own, not a class's function.
            if word == "class", let next = words.dropFirst().first, next.first?.isUppercase == true { break }
            if ["public", "package", "open"].contains(word) { access = "public" }
            if ["private", "fileprivate"].contains(word) { access = "private" }
            words.removeFirst()
        }
        guard let keyword = words.popFirst(), let first = words.first else { return nil }
        let rest = line[first.startIndex...]
        let name = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" }
        switch keyword {
        case "import": imports.insert(rest)
        case "class", "struct", "enum", "protocol", "actor", "extension":
            if keyword != "extension" { insert(name, access, to: \.types) }
            let opened = Scope(
                indentation: indentation, isPublic: access == "public",
                lendsAccess: keyword == "protocol" || keyword == "extension" || keyword == "enum")
            guard rest.hasSuffix("}") else { return opened }
            if let brace = rest.firstIndex(of: "{") {
                for part in rest[rest.index(after: brace)...].dropLast().split(separator: ";") {
                    _ = declare(part.drop { $0 == " " }, in: opened, indentation + 4)
                }
            }
        case "typealias":
            insert(name, access, to: \.types)
            // The labels of a tuple are used as members are.
            for label in labels(rest) { insert(label, access, to: \.members) }
        case "func": insert(name, access, to: \.members)
        case "var", "let": for name in variables(rest) { insert(name, access, to: \.members) }
        case "case": for name in cases(rest) { insert(name, access, to: \.members) }
        default: break
        }
        return nil
    }

    private mutating func insert(
        _ name: Substring, _ access: String, to names: WritableKeyPath<Declarations, Set<Substring>>
    ) {
        if access == "private" { privateNames.insert(name) } else { self[keyPath: names].insert(name) }
        if access == "public" { publicNames.insert(name) }
    }

    /// The names in `a: Int, b = 1`, or in `(a, b) = (1, 2)`.
    private func variables(_ text: Substring) -> [Substring] {
        let pattern =
            text.hasPrefix("(")
            ? text.dropFirst().prefix { $0 != ")" } : text.prefix { $0 != ":" && $0 != "=" && $0 != "{" }
        return pattern.split { $0 == "," || $0 == " " }
    }

    /// The names in `(a: Int, b: Int)`.
    private func labels(_ text: Substring) -> [Substring] {
        text.split { $0 == " " || $0 == "(" }.filter { $0.hasSuffix(":") }.map { $0.dropLast() }
    }

    /// The names in `a, b(Int), c = 3`.
    private func cases(_ text: Substring) -> [Substring] {
        var (depth, parts) = (0, [Substring()])
        for character in text {
            if character == "(" { depth += 1 }
            if depth == 0 {
                if character == "," { parts.append("") } else { parts[parts.count - 1].append(character) }
            }
            if character == ")" { depth -= 1 }
        }
        return parts.map { $0.drop { $0 == " " || $0 == "`" }.prefix { $0.isLetter || $0.isNumber || $0 == "_" } }
    }
}

// MARK: - Modules

struct Source {
    let path: String
    let folder: String
    let declared: Declarations
    let uses: Uses

    init(_ path: String, in root: String) {
        let code = Scanner.code(text(of: "\(root)/\(path)"))
        self.path = path
        folder = String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
        (declared, uses) = (Declarations(code), Uses(code))
    }
}

struct Module {
    let name: String
    let sources: [Source]

    /// The folder of a module in one of the folders of Sources; nil when it is not of this package.
    static func folder(of name: String) -> String? {
        (names(in: "Sources") ?? []).map { "Sources/\($0)/\(name)" }.first { names(in: $0) != nil }
    }

    init(_ name: String) {
        self.name = name
        let root = Self.folder(of: name) ?? "Sources/\(name)"
        sources = swiftFiles(under: root).map { Source($0, in: root) }
    }

    /// The names that importers can use.
    var publicNames: Set<Substring> { sources.reduce(into: []) { $0.formUnion($1.declared.publicNames) } }
    var imports: Set<Substring> { sources.reduce(into: []) { $0.formUnion($1.declared.imports) } }

    /// - Parameter imported: The names that imported modules declare.
    func faults(_ floors: [[String]], importing imported: Set<Substring>) -> [String] {
        /// The floor of a file's folder, and the folder in the table.
        func place(of source: Source) -> (floor: Int, folder: Substring)? {
            var folder = source.folder[...]
            while true {
                if let floor = floors.firstIndex(where: { $0.contains(String(folder)) }) { return (floor, folder) }
                guard let slash = folder.lastIndex(of: "/") else { return nil }
                folder = folder[..<slash]
            }
        }
        let places = sources.map(place)
        var (types, members): (Owners, Owners) = ([:], [:])
        for (index, source) in sources.enumerated() {
            for name in source.declared.types { types[name, default: []].append(index) }
            for name in source.declared.members { members[name, default: []].append(index) }
        }
        var faults: [String] = []
        for (source, place) in zip(sources, places) {
            guard let place else {
                faults.append("\(name)/\(source.path): its folder is on no floor")
                continue
            }
            /// Adds a fault for each name that is declared, but by no file at or below this one.
            func check(_ names: Set<Substring>, _ owners: Owners) {
                for used in names.subtracting(imported).subtracting(source.declared.privateNames).sorted() {
                    guard let owners = owners[used] else { continue }
                    let isInReach = owners.contains { owner in
                        guard let other = places[owner] else { return true }
                        return other.floor < place.floor || other == place
                    }
                    if isInReach { continue }
                    faults.append(
                        "\(name)/\(source.path) uses \(used), which is above it in \(sources[owners[0]].path)")
                }
            }
            check(source.uses.types, types)
            check(source.uses.members.union(source.uses.calls), members)
        }
        return faults
    }

    /// The numbers of the files that declare a name.
    private typealias Owners = [Substring: [Int]]
}

// MARK: - The check

let chosen = Set(CommandLine.arguments.dropFirst())
var publicNames: [Substring: Set<Substring>] = [:]
var faults: [String] = []
for (name, floors) in modules where chosen.isEmpty || chosen.contains(name) {
    let module = Module(name)
    if module.sources.isEmpty { faults.append("\(name) has no Swift file") }
    var imported = standard.union(foreign[name, default: [:]].keys)
    for other in module.imports where Module.folder(of: String(other)) != nil {
        let names = publicNames[other] ?? Module(String(other)).publicNames
        publicNames[other] = names
        imported.formUnion(names)
    }
    faults += module.faults(floors, importing: imported)
}
for fault in faults { print("error: \(fault)") }
exit(faults.isEmpty ? 0 : 1)
