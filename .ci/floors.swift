// Checks that in Sources/Ports every use of a type points to the same floor or down: a folder is a floor.
//
//     swift .ci/floors.swift Sources/Ports
//
// It reads text, not Swift: a type "uses" another file's when its name stands there outside comments and strings. A name
// that several files declare is left out.

import Glibc

/// The lowest first. "" is the folder itself. Floors of one line stand side by side and do not name each other.
let floors = [
    ["Wire"], ["System"], ["Control"], ["Registry"], ["Sending"], ["Receiving"], ["Replies"], ["Inspection"],
    ["Runtime"], [""],
    ["CheckIn", "MessagePorts", "Names"],
]

struct Source {
    let name: String
    let folder: String
    let code: String

    var floor: Int? { floors.firstIndex { $0.contains(folder) } }
}

func text(of path: String) -> String {
    guard let file = fopen(path, "r") else { fatalError("\(path) cannot be read") }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var byte = fgetc(file)
    while byte != EOF {
        bytes.append(UInt8(byte))
        byte = fgetc(file)
    }
    return String(decoding: bytes, as: UTF8.self)
}

func files(in folder: String) -> [String] {
    guard let directory = opendir(folder) else { return [] }
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

/// Without comments and string literals.
func code(_ text: String) -> String {
    text.replacing(#/\/\/[^\n]*/#, with: "").replacing(#/"(?:\\.|[^"\\\n])*"/#, with: "")
}

guard CommandLine.arguments.count == 2 else { fatalError("usage: swift .ci/floors.swift FOLDER") }
let root = CommandLine.arguments[1]
var sources: [Source] = []
for folder in [""] + files(in: root).filter({ !$0.contains(".") }) {
    for name in files(in: "\(root)/\(folder)") where name.hasSuffix(".swift") {
        sources.append(Source(name: name, folder: folder, code: code(text(of: "\(root)/\(folder)/\(name)"))))
    }
}

/// Where each type is declared. Private nested types are left out.
var declared: [Substring: [Int]] = [:]
let declaration =
    #/(?m)^( *)((?:[a-z]+ )*?)(?:class|struct|enum|protocol|actor|typealias) ([A-Z][A-Za-z0-9_]*)/#
for (index, source) in sources.enumerated() {
    for match in source.code.matches(of: declaration) where match.1.isEmpty || !match.2.contains("private") {
        if declared[match.3]?.contains(index) != true { declared[match.3, default: []].append(index) }
    }
}

var faults: [String] = []
for source in sources {
    guard let floor = source.floor else {
        faults.append("\(source.folder): no floor has this name")
        continue
    }
    for name in Set(source.code.matches(of: #/\b[A-Z][A-Za-z0-9_]*/#).map(\.0)).sorted() {
        guard let owners = declared[name], owners.count == 1 else { continue }
        let owner = sources[owners[0]]
        guard let other = owner.floor, other > floor || other == floor && owner.folder != source.folder else {
            continue
        }
        faults.append(
            "\(source.folder)/\(source.name) names \(name), which is above it in \(owner.folder)/\(owner.name)")
    }
}
for fault in faults { print("error: \(fault)") }
exit(faults.isEmpty ? 0 : 1)
