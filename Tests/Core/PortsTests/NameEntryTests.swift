import Glibc
import Testing

@testable import Ports

@Suite struct NameEntryTests {
    private static let right = WireRight(
        id: PortID(incarnation: .random(), number: 12), queueLimit: 1000, limit: 1 << 20, path: "/run/user/1/ports")

    private func entry(_ bytes: [UInt8]) throws(PortError) -> NameEntry { try NameEntry(bytes, path: "/x") }

    private static let names =
        (UInt8(1)...127).map { "a\(Character(Unicode.Scalar($0)))b" } + [
            ".", "..", "/", "../../etc/passwd", "\n", "a\nport 3", "ü", "日本語", "👩‍👩‍👧‍👦", "e\u{301}", "\u{e9}", "%41", "~",
            "com.example.echo", String(repeating: "x", count: 255), String(repeating: "/", count: 255),
            String(repeating: "日", count: 85), " ", "-", "names", "%2e", ".x", "...",
        ]

    @Test func `every name has a plain file name of its own`() throws {
        var files: Set<String> = []
        for name in Self.names {
            let file = try NameEntry.fileName(for: name)
            #expect((1...200).contains(file.utf8.count), "\(name)")
            #expect(!file.hasPrefix("."), "\(name)")
            let isPlain = file.utf8.allSatisfy { byte in
                (0x21...0x7e).contains(byte) && byte != UInt8(ascii: "/")
            }
            #expect(isPlain, "\(file)")
            #expect(files.insert(file).inserted, "\(name)")
        }
    }

    @Test func `long names that differ at the end have files of their own`() throws {
        let files = try Set((0..<200).map { try NameEntry.fileName(for: String(repeating: "n", count: 250) + "\($0)") })
        #expect(files.count == 200)
    }

    @Test func `every name's entry makes the round trip`() throws {
        for name in Self.names {
            let sent = NameEntry(name: name, right: Self.right)
            #expect(try entry(sent.bytes) == sent, "\(name)")
        }
    }

    @Test(arguments: ["", "a\0b", String(repeating: "x", count: 256), String(repeating: "日", count: 86)])
    func `what cannot be a name is refused`(_ name: String) {
        #expect(errorKind { _ = try NameEntry.fileName(for: name) } == "badName")
    }

    @Test func `an entry cut short is malformed, or still says the same`() throws {
        let whole = NameEntry(name: "some name", right: Self.right)
        for count in 0..<whole.bytes.count {
            guard let read = try? entry(Array(whole.bytes[..<count])) else { continue }
            // Only what is cut off the last line may pass.
            #expect(read.name == whole.name)
            #expect(read.right.id == whole.right.id)
        }
        #expect(errorKind { _ = try entry([]) } == "untrustedDirectory")
    }

    @Test func `no change of a byte crashes`() {
        let whole = NameEntry(name: "é/%", right: Self.right).bytes
        for index in whole.indices {
            for value in UInt8.min...UInt8.max {
                var bytes = whole
                bytes[index] = value
                guard let read = try? entry(bytes) else { continue }
                #expect((try? NameEntry.fileName(for: read.name)) != nil)
                #expect(read.right.path.hasPrefix("/"))
            }
        }
    }

    @Test func `another version is told apart`() {
        let bytes = Array("ports-name 2\nwhatever else\n".utf8)
        #expect(errorKind { _ = try entry(bytes) } == "incompatibleVersion")
    }

    @Test(arguments: [
        "name a%00b", "name a%4", "name a%zz", "name a b", "pid x", "port -1", "process 12", "limit -1",
        "directory rel",
        "queue 99999999999", "start",
    ])
    func `an entry with a fact that cannot be is malformed`(_ line: String) throws {
        let text = String(decoding: NameEntry(name: "ok", right: Self.right).bytes, as: UTF8.self)
        let fact = line.prefix { $0 != " " }
        let lines = text.split(separator: "\n").map { $0.hasPrefix(fact + " ") ? line[...] : $0 }
        #expect(errorKind { _ = try entry(Array(lines.joined(separator: "\n").utf8)) } == "untrustedDirectory")
    }

    @Test func `a process's start is known while it lives`() {
        #expect(ProcessStatus.startTime(of: getpid()) ?? 0 > 0)
        #expect(ProcessStatus.startTime(of: -1) == nil)
    }

    @Test func `an entry says whether its name is a service's`() throws {
        let sent = NameEntry(name: "x", right: Self.right, isService: false)
        #expect(try entry(sent.bytes) == sent)
        #expect(try entry(NameEntry(name: "x", right: Self.right).bytes).isService)
    }
}
