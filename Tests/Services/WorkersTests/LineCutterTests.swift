import OwnThread
import Testing

@testable import Workers

/// How bytes become lines, as values.
@Suite(.ownThread) struct LineCutterTests {
    @Test func `lines come when they are complete, and without empty ones`() {
        var cutter = LineCutter()
        #expect(cutter.add("one\ntw".utf8) == ["one"])
        #expect(cutter.add("o\n\n\nthree".utf8) == ["two"])
        #expect(cutter.add("".utf8).isEmpty)
        #expect(cutter.end() == "three")
        #expect(cutter.end() == nil)
    }

    @Test func `a long line is cut, and not inside a character`() {
        var cutter = LineCutter()
        let long = String(repeating: "a", count: LineCutter.longest - 1)
        #expect(cutter.add("\(long)€b\n\(long)c\n".utf8) == [long, "€b", long + "c"])
        // No end of a line ever comes, and no character.
        let count = (0..<10).reduce(0) { sum, _ in sum + cutter.add(repeatElement(0x80, count: 4096)).count }
        #expect(count == 9)
        #expect(cutter.end()?.isEmpty == false)
    }
}
