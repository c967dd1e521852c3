import Testing
import TypedPorts

@Suite struct CBORCoderTests {
    @Test func `a small value has the bytes of the standard`() throws {
        #expect(try encoded(["a": 1]) == [0xA1, 0x61, 0x61, 0x01])
        #expect(try encoded([1, 2, 3]) == [0x83, 1, 2, 3])
        #expect(try encoded([UInt8]([1, 2])) == [0x42, 1, 2])
    }
}
