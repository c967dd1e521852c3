import FoundationCoding
import OwnThread
import TestSupport
import Testing
import TypedPorts

/// Random values beside JSON, and read by another implementation of CBOR.
@Suite(.ownThread) struct GeneratedValueTests {
    @Test(arguments: [1, drawnSeed()])
    func `containers that are filled by turns become what JSON makes of them`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<30 {
            let seed = random.next()
            // In an array, as JSONEncoder refuses a root that encodes nothing.
            let json = try decoded(
                PlainItem.self, encoded([DrawnValue(seed: seed, depth: 3, hasFailures: false)], JSONCoder()),
                JSONCoder())
            for hasFailures in [false, true] {
                let bytes = try encoded([DrawnValue(seed: seed, depth: 3, hasFailures: hasFailures)])
                let (plain, ours) = (try PlainCBORReader.item(of: bytes), try decoded(PlainItem.self, bytes))
                #expect(plain == json, "value \(seed), hasFailures: \(hasFailures)")
                #expect(ours == json, "value \(seed), hasFailures: \(hasFailures)")
            }
        }
    }

    @Test(arguments: [1, drawnSeed()])
    func `of keys that come twice, the first counts for any question in any order`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<1000 {
            let names = (0..<Int.random(in: 1..<20, using: &random)).map { _ in
                "k\(Int.random(in: 0..<15, using: &random))"
            }
            var bytes: [UInt8] = [0xBF]
            for (index, name) in names.enumerated() {
                bytes += [0x60 + UInt8(name.utf8.count)] + name.utf8 + [UInt8(index)]
            }
            var questions = (0..<30).map { _ in "k\(Int.random(in: 0..<15, using: &random))" }
            // Also in the order of the map.
            if Bool.random(using: &random) { questions = names + questions }
            let answers = try Asked.$questions.withValue(questions) { try decoded(Asked.self, bytes + [0xFF]).answers }
            #expect(answers == questions.map { names.firstIndex(of: $0) }, "\(names), \(questions)")
        }
    }

    private struct Asked: Decodable {
        @TaskLocal static var questions: [String] = []
        let answers: [Int?]

        struct Key: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            answers = try Self.questions.map { try container.decodeIfPresent(Int.self, forKey: Key(stringValue: $0)) }
        }
    }
}
