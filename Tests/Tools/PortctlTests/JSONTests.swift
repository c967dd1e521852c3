import Foundation
import FuzzTargets
import OwnThread
import TestSupport
import Testing

@testable import Ports
@testable import PortsInspection
@testable import portctl

/// The JSON that the commands write.
@Suite(.ownThread) struct JSONTests {
    private let registry = Registry()

    private struct Sample: Encodable {
        struct Empty: Encodable {}

        var text: String? = "a\"\\\n"
        var missing: String?
        var flag: Bool? = true
        var number: UInt32? = 7
        var missingNumber: Int?
        var time: Duration? = .microseconds(1500)
        var list = [1.5, .nan]
        var missingInList: [Int?] = [1, nil]
        var empty = Empty()
    }

    @Test func `nil is null, and a duration has milliseconds`() {
        let members = [
            #""text":"a\"\\\n""#, #""missing":null"#, #""flag":true"#, #""number":7"#, #""missingNumber":null"#,
            #""time":1.500"#, #""list":[1.5,null]"#, #""missingInList":[1,null]"#, #""empty":{}"#,
        ]
        #expect(json(Sample()) == "{\(members.joined(separator: ","))}")
        #expect(json([Int]()) == "[]")
        #expect(json(String?.none) == "null")
    }

    /// The names of all fields in some JSON.
    private func fields(of json: Any) -> Set<String> {
        switch json {
        case let object as [String: Any]:
            object.values.reduce(into: Set(object.keys)) { $0.formUnion(fields(of: $1)) }
        case let list as [Any]: list.reduce(into: []) { $0.formUnion(fields(of: $1)) }
        default: []
        }
    }

    private func fields(ofText text: String) throws -> Set<String> {
        try text.split(separator: "\n").reduce(into: []) { found, line in
            found.formUnion(fields(of: try JSONSerialization.jsonObject(with: Data(line.utf8))))
        }
    }

    @Test func `the page on portctl explains each field`() throws {
        let file = "../../../Sources/SwiftPortsGuide/SwiftPortsGuide.docc/Portctl.md"
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        let page = try String(contentsOf: folder.appending(path: file), encoding: .utf8)
        _ = try registry.serve("clock")
        var found: Set<String> = []
        let commands = [
            ["list"], ["info", "clock"], ["doctor"], ["top", "--count", "1"], ["map"],
            ["ping", "clock", "--count", "1"],
            ["request", "clock", "hello"], ["sweep"], ["timeline", "clock", "--seconds", "0.1"],
        ]
        for command in commands {
            let outcome = registry.start(command + ["--json"]).outcome
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
            let fields = try fields(ofText: outcome.output)
            #expect(!fields.isEmpty || command == ["sweep"], "\(command)")
            found.formUnion(fields)
        }
        for seed in FuzzedAnswer.seeds {
            if let info: PortInfo = BoundedCoding.decode(from: seed) {
                found.formUnion(try fields(ofText: json(info)))
            }
            guard let packet: PortEvents = BoundedCoding.decode(from: seed) else { continue }
            for event in packet.events {
                found.formUnion(try fields(ofText: json(NamedEvent(name: "x", event: event))))
            }
        }
        #expect(found.count > 90)
        #expect(found.filter { !page.contains("`\($0)`") }.sorted() == [])
    }
}
