import Testing

@testable import FuzzTargets
@testable import Ports

@Suite struct ControlMessageTests {
    private func message(_ bytes: [UInt8]) -> ControlMessage? { bytes.withUnsafeBytes { ControlMessage($0) } }
    private func hello(_ bytes: [UInt8]) -> ControlHello? { bytes.withUnsafeBytes { ControlHello($0) } }

    @Test(arguments: [
        ControlMessage.watch(1), .invalidated(.max), .unanswered(0x0102_0304_0506_0708), .credit(1, bytes: .max),
        .count(2), .sent(3, count: 4), .drained(1, probe: .max), .probed(2), .refused(3), .cancelled(4),
        .question(QuestionPacket(number: 5, answers: Samples.right, question: [1, 2, 3])),
        .finishing(1), .finished(2), .wantsRing(1, question: 2), .ring(2, question: 3), .noRing(3, question: 4),
        .ringClosed(4, question: 5), .zeroMQ(6, isOpen: true), .zeroMQ(7, isOpen: false),
        .wantsDescriptorSocket(6, question: 7), .descriptorSocket(7, question: 8),
        .noDescriptorSocket(8, question: 9), .descriptorSocketClosed(9, question: 10),
        .moving(11), .stayed(12), .requestMoved(13, request: 14), .hasRequest(14, request: 15),
        .requestIsHere(15, request: 16), .named(5, "é"),
        .named(6, String(repeating: "n", count: 255)), .failed(7, reason: "ü"),
        .failed(8, reason: String(repeating: "r", count: 512)),
    ])
    func `messages make the round trip`(_ sent: ControlMessage) {
        #expect(message(Samples.packet(sent)) == sent)
    }

    @Test func `messages of another size or kind are none`() {
        let sizes: [UInt8: Int] = [
            1: 9, 2: 9, 3: 9, 4: 17, 5: 9, 6: 17, 7: 17, 8: 9, 9: 9, 10: 9, 11: 9, 12: 9, 15: 17, 16: 17, 17: 17,
            18: 17, 20: 17, 21: 17, 22: 17, 23: 17, 24: 9, 25: 9, 26: 17, 27: 17, 28: 17,
            30: 17,
        ]
        for kind in [UInt8](0...255) {
            // The last field of packet 30 is 0 or 1.
            let fields: [UInt8] = kind == 30 ? [1] + [UInt8](repeating: 0, count: 7) : [UInt8](repeating: 1, count: 8)
            for size in 0...40 {
                let isOne = message(([kind] + fields + fields + fields + fields + fields).prefix(size) + []) != nil
                #expect(isOne == (kind == 14 || kind == 29 ? size > 9 : sizes[kind] == size))
            }
        }
        for whole in [
            Samples.packet(.named(1, String(repeating: "n", count: 255))),
            Samples.packet(.failed(1, reason: String(repeating: "r", count: 512))),
        ] {
            #expect(message(whole + [110]) == nil)
            for bad: UInt8 in [0, 0xff] { #expect(message(whole.dropLast() + [bad]) == nil) }
        }
        #expect(message([30, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]) == nil)
    }

    @Test func `a hello makes the round trip, and is at least so long`() {
        let sent = ControlHello(incarnation: .random(), origin: 0x8765_4321)
        let whole = Samples.bytes(of: sent)
        #expect(hello(whole) == sent)
        // Another version may say more.
        #expect(hello(whole + [1, 2, 3]) == sent)
        for count in 0..<whole.count { #expect(hello(Array(whole[..<count])) == nil) }
    }

    @Test func `a hello of another version says which`() {
        var whole = Samples.bytes(of: ControlHello(incarnation: .random()))
        whole[4] = 7
        #expect(hello(whole)?.version == 7)
    }

    @Test func `a hello with another beginning is none`() {
        let whole = Samples.bytes(of: ControlHello(incarnation: .random()))
        for index in 0..<4 {
            var changed = whole
            changed[index] ^= 1
            #expect(hello(changed) == nil)
        }
    }
}
