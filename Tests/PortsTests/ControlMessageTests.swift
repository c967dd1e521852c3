import Testing

@testable import Ports

@Suite struct ControlMessageTests {
    private func bytes(of message: ControlMessage) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ControlMessage.size)
        bytes.withUnsafeMutableBytes { message.write(to: $0) }
        return bytes
    }

    private func bytes(of hello: ControlHello) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ControlHello.size)
        bytes.withUnsafeMutableBytes { hello.write(to: $0) }
        return bytes
    }

    private func message(_ bytes: [UInt8]) -> ControlMessage? { bytes.withUnsafeBytes { ControlMessage($0) } }
    private func hello(_ bytes: [UInt8]) -> ControlHello? { bytes.withUnsafeBytes { ControlHello($0) } }

    @Test(arguments: [ControlMessage.watch(1), .invalidated(.max), .unanswered(0x0102_0304_0506_0708)])
    func `messages make the round trip`(_ sent: ControlMessage) {
        #expect(message(bytes(of: sent)) == sent)
    }

    @Test func `messages of another size or kind are none`() {
        let whole = bytes(of: .watch(7))
        for count in 0..<whole.count { #expect(message(Array(whole[..<count])) == nil) }
        #expect(message(whole + [0]) == nil)
        for kind in [UInt8](0...255) where !(1...3).contains(kind) {
            #expect(message([kind] + whole.dropFirst()) == nil)
        }
    }

    @Test func `a hello makes the round trip, and is at least so long`() {
        let sent = ControlHello(incarnation: .random())
        let whole = bytes(of: sent)
        #expect(hello(whole) == sent)
        // Another version may say more.
        #expect(hello(whole + [1, 2, 3]) == sent)
        for count in 0..<whole.count { #expect(hello(Array(whole[..<count])) == nil) }
    }

    @Test func `a hello of another version says which`() {
        var whole = bytes(of: ControlHello(incarnation: .random()))
        whole[4] = 7
        #expect(hello(whole)?.major == 7)
    }

    @Test func `a hello with another beginning is none`() {
        let whole = bytes(of: ControlHello(incarnation: .random()))
        for index in 0..<4 {
            var changed = whole
            changed[index] ^= 1
            #expect(hello(changed) == nil)
        }
    }
}
