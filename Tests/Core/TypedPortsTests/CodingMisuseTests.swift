import OwnThread
import TestSupport
import Testing

@testable import TypedPorts

/// A type's own code may make mistakes, whose errors name them.
@Suite(.ownThread) struct CodingMisuseTests {
    private enum Key: CodingKey { case first, second }

    /// Hands its encoder or decoder to a closure.
    private struct Probe: Codable {
        nonisolated(unsafe) var body: (any Encoder) throws -> Void = { _ in }

        init(_ body: @escaping (any Encoder) throws -> Void) { self.body = body }
        init(from decoder: any Decoder) throws { try Probe.visit?(decoder) }
        func encode(to encoder: any Encoder) throws { try body(encoder) }

        @TaskLocal static var visit: (@Sendable (any Decoder) throws -> Void)?
    }

    @Test func `a container that is kept beyond its value throws`() throws {
        var kept: KeyedEncodingContainer<Key>?
        var later: [UInt8] = []
        _ = try encoded(Probe { kept = $0.container(keyedBy: Key.self) })
        #expect(throws: EncodingError.self) { try kept?.encode(1, forKey: .first) }
        let value = Probe { encoder in
            var container = encoder.container(keyedBy: Key.self)
            #expect(throws: EncodingError.self) { try kept?.encode(1, forKey: .first) }
            try container.encode("x", forKey: .second)
        }
        later = try encoded(value)
        #expect(try decoded([String: String].self, later) == ["second": "x"])
    }

    @Test func `a decoder that is kept beyond its value throws`() throws {
        let kept = Shared<[@Sendable () throws -> Void]>([])
        try Probe.$visit.withValue({ decoder in
            nonisolated(unsafe) let container = try decoder.container(keyedBy: Key.self)
            nonisolated(unsafe) let decoder = decoder
            kept.withLock { kept in
                kept.append { _ = try container.decode(Int.self, forKey: .first) }
                kept.append { _ = try decoder.singleValueContainer().decode(Int.self) }
                kept.append { _ = try decoder.unkeyedContainer() }
            }
        }) { _ = try decoded(Probe.self, hex("a1 65 6669727374 01")) }
        for use in kept.withLock({ $0 }) { #expect(throws: DecodingError.self) { try use() } }
    }

    @Test func `what an element of a batch keeps throws during the next elements, too`() throws {
        let coder = CBORCoder()
        var batch = StreamBatch()
        var kept: KeyedEncodingContainer<Key>?
        for first in 0..<2 {
            try batch.append(
                Probe { encoder in
                    var container = encoder.container(keyedBy: Key.self)
                    if first == 0 { kept = container }
                    if first == 1 {
                        #expect(throws: EncodingError.self) { try kept?.encode(2, forKey: .second) }
                    }
                    try container.encode(first, forKey: .first)
                }, coder)
        }
        let keptUses = Shared<[@Sendable () throws -> Void]>([])
        try Probe.$visit.withValue({ decoder in
            nonisolated(unsafe) let container = try decoder.container(keyedBy: Key.self)
            for use in keptUses.withLock({ $0 }) { #expect(throws: DecodingError.self) { try use() } }
            let number = try container.decode(Int.self, forKey: .first)
            keptUses.withLock { kept in
                #expect(number == kept.count)
                kept.append { _ = try container.decode(Int.self, forKey: .first) }
            }
        }) {
            var received = ReceivedBatch<Probe>(batch.message)
            for _ in 0..<2 { _ = try #require(try received.popFirst(coder)) }
            #expect(try received.popFirst(coder) == nil)
        }
    }

    @Test func `an element that fails in its middle leaves nothing to the next one`() throws {
        struct Failed: Error {}
        let coder = CBORCoder()
        var batch = StreamBatch()
        for _ in 0..<2 {
            #expect(throws: Failed.self) {
                try batch.append(
                    Probe { encoder in
                        var container = encoder.container(keyedBy: Key.self)
                        try container.encode(MessageBytes([1, 2]), forKey: .first)
                        var nested = container.nestedUnkeyedContainer(forKey: .second)
                        try nested.encode([Probe { _ in throw Failed() }])
                    }, coder)
            }
            // An error that cannot be thrown at once is the element's, too.
            #expect(throws: EncodingError.self) {
                try batch.append(
                    Probe {
                        _ = $0.unkeyedContainer()
                        _ = $0.container(keyedBy: Key.self)
                    }, coder)
            }
            try batch.append(["a": MessageBytes([7])], coder)
        }
        #expect(batch.message.componentCount == 3)
        var received = ReceivedBatch<[String: MessageBytes]>(batch.message)
        for _ in 0..<2 { #expect(try received.popFirst(coder)?["a"]?.array == [7]) }
        #expect(try received.popFirst(coder) == nil)
    }

    @Test func `a value has one container, and a value alone has one item`() throws {
        #expect(throws: EncodingError.self) {
            try encoded(
                Probe {
                    _ = $0.unkeyedContainer()
                    _ = $0.container(keyedBy: Key.self)
                })
        }
        #expect(throws: EncodingError.self) {
            try encoded(
                Probe {
                    var container = $0.singleValueContainer()
                    try container.encode(1)
                    try container.encode(2)
                })
        }
        #expect(try encoded(Probe { _ in }) == [0xA0])
    }

    @Test func `a coder may be used inside itself`() throws {
        let inner = Probe { encoder in
            var container = encoder.unkeyedContainer()
            try container.encode(encoded(["x": [1, 2]]))
            try container.encode(7)
        }
        #expect(try encoded([inner]) == hex("8182 46 a16178820102 07"))
    }

    @Test func `a container of another value than the innermost throws`() throws {
        let value = Probe { encoder in
            var container = encoder.unkeyedContainer()
            var nested = container.nestedUnkeyedContainer()
            // The containers themselves are being changed meanwhile.
            let (sameContainer, sameNested) = (container, nested)
            try container.encode(
                Probe { inner in
                    for same in [sameContainer, sameNested] {
                        var same = same
                        #expect(throws: EncodingError.self) { try same.encode(1) }
                    }
                    var own = inner.unkeyedContainer()
                    try own.encode(2)
                })
            try nested.encode(3)
        }
        #expect(try encoded(value) == hex("82 8103 8102"))
    }

    @Test func `a value alone stays one when it is left`() throws {
        let value = Probe { encoder in
            var container = encoder.unkeyedContainer()
            var single = container.superEncoder().singleValueContainer()
            try single.encode(1)
            try container.encode(2)
            #expect(throws: EncodingError.self) { try single.encode(3) }
        }
        #expect(try encoded(value) == hex("820102"))
    }

    @Test func `a value whose error is caught leaves no trace`() throws {
        struct Failure: Error {}
        let failing = Probe { encoder in
            var container = encoder.container(keyedBy: Key.self)
            try container.encode([1], forKey: .first)
            throw Failure()
        }
        let value = Probe { encoder in
            var container = encoder.container(keyedBy: Key.self)
            #expect(throws: Failure.self) { try container.encode(failing, forKey: .first) }
            var nested = container.nestedUnkeyedContainer(forKey: .second)
            #expect(throws: Failure.self) { try nested.encode(failing) }
            #expect(nested.count == 0)
            var single = nested.superEncoder().singleValueContainer()
            #expect(throws: Failure.self) { try single.encode(failing) }
            try single.encode(7)
        }
        #expect(try encoded(value) == hex("a1 66 7365636f6e64 8107"))
    }

    @Test func `bytes that turn out to be part of an array become numbers`() throws {
        let value = Probe { encoder in
            var container = encoder.unkeyedContainer()
            try container.encode(contentsOf: [1, 200] as [UInt8])
            try container.encode("x")
        }
        #expect(try encoded(value) == hex("830118c86178"))
        #expect(try encoded([Probe { try $0.bytes([1, 200]) }, Probe { try $0.bytes([]) }]) == hex("824201c840"))
    }

    @Test func `errors name the place`() throws {
        struct Outer: Codable {
            var people: [String: [Person]]
            var choice: Choice?
        }
        let good: [UInt8] = hex("a1 66 70656f706c65 a1 6178 82") + (try encoded(Person(id: 1, name: "a", value: 2)))
        func path(_ rest: String) -> (kind: String, path: [String]) {
            let error = #expect(throws: DecodingError.self) { try decoded(Outer.self, good + hex(rest)) }
            switch error {
            case .typeMismatch(_, let context): return ("mismatch", context.codingPath.map(\.stringValue))
            case .keyNotFound(let key, let context):
                return ("no \(key.stringValue)", context.codingPath.map(\.stringValue))
            case .valueNotFound(_, let context): return ("null", context.codingPath.map(\.stringValue))
            case .dataCorrupted(let context): return ("corrupted", context.codingPath.map(\.stringValue))
            default: return ("none", [])
            }
        }
        let place = ["people", "x", "Index 1"]
        #expect(path("a362696402646e616d65016576616c756503") == ("mismatch", place + ["name"]))
        #expect(path("a2 626964 02 646e616d65 6161") == ("no value", place))
        #expect(path("a3 626964 02 646e616d65 f6 6576616c7565 03") == ("null", place + ["name"]))
        #expect(path("a3 626964 1b000000ffffffffff 646e616d65 6161 6576616c7565 03") == ("corrupted", place + ["id"]))
        #expect(path("01") == ("mismatch", place))
        var deep = Choice.none
        for _ in 0..<40 { deep = .more(deep) }
        let error = #expect(throws: EncodingError.self) { try encoded(Outer(people: [:], choice: deep)) }
        guard case .invalidValue(_, let context) = error else { return }
        #expect(context.codingPath.prefix(3).map(\.stringValue) == ["choice", "more", "_0"])
    }

    @Test func `many threads encode and decode at once`() async throws {
        let coder = CBORCoder()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    for round in 0..<20 {
                        let person = Person(id: Int32(number), name: "n\(round)", value: Double(round))
                        let samePerson = try roundTrip(person, coder)
                        let same = try roundTrip(Everything(), coder)
                        #expect(samePerson == person)
                        #expect(same == Everything())
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}

extension Encoder {
    fileprivate func bytes(_ bytes: [UInt8]) throws {
        var container = unkeyedContainer()
        try container.encode(contentsOf: bytes)
    }
}
