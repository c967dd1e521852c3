import Glibc

/// Files that the hostile process writes into the registry directory. Of the same user, it may take names and remove entries
/// as any process, so its files are none of a name that others use.
enum HostileFiles {
    private static let mark = "hostile"

    /// Whether a file below the directory is one of these, which no sweep removes.
    static func isOne(_ path: String) -> Bool { path.contains(mark) }

    static func write() {
        let number = machine.chance.below(10)
        let name = "\(Scenario.directory)/names/\(mark) \(number)"
        switch machine.chance.below(6) {
        // A folder without an entry, and a file in a folder's place.
        case 0: _ = mkdir(name, 0o700)
        case 1: write([], to: name)
        // The entry of another name, as it is or with some other bytes.
        case 2...3:
            guard let (file, bytes) = anyEntry() else { return }
            _ = mkdir(name, 0o700)
            write(machine.chance.oneIn(2) ? bytes : changed(bytes), to: "\(name)/\(file)")
        // Homes of ports, moves and loans that are none.
        case 4:
            let folder = machine.chance.pick(["homes", "moves", "loans"])
            write(
                machine.chance.bytes(machine.chance.below(300)), to: "\(Scenario.directory)/\(folder)/\(mark) \(number)"
            )
        default:
            guard let (file, bytes) = anyEntry() else { return }
            let folder = machine.chance.pick(["homes", "moves", "loans"])
            write(bytes, to: "\(Scenario.directory)/\(folder)/\(file)~\(mark) \(number)")
        }
    }

    /// The last part of an entry's path, and its bytes.
    private static func anyEntry() -> (file: String, bytes: [UInt8])? {
        let entries = machine.files.paths(below: Scenario.directory + "/names").filter {
            $0.dropFirst().contains("/") && !isOne($0)
        }
        guard let entry = entries.randomElement(using: &machine.chance),
            case .node(let node) = machine.files.find(Scenario.directory + "/names" + entry, from: nil).place
        else { return nil }
        return (String(entry[entry.index(after: entry.lastIndex(of: "/") ?? entry.startIndex)...]), node.bytes)
    }

    private static func changed(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        // Another version.
        if machine.chance.oneIn(8), let end = bytes.firstIndex(of: UInt8(ascii: "\n")), end > 0 {
            bytes[end - 1] = UInt8(ascii: "9")
            return bytes
        }
        for _ in 0...machine.chance.below(4) where !bytes.isEmpty {
            let place = machine.chance.below(bytes.count)
            switch machine.chance.below(3) {
            case 0: bytes.remove(at: place)
            case 1: bytes.insert(UInt8(machine.chance.below(256)), at: place)
            default: bytes[place] = UInt8(machine.chance.below(256))
            }
        }
        return bytes
    }

    private static func write(_ bytes: [UInt8], to path: String) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        guard descriptor >= 0 else { return }
        if !bytes.isEmpty { _ = Glibc.write(descriptor, bytes, bytes.count) }
        _ = Glibc.close(descriptor)
    }
}
