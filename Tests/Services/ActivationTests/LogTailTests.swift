import OwnThread
import TestSupport
import Testing

@testable import Activation

@Suite(.ownThread) struct LogTailTests {
    private let folder = TemporaryFolder()
    private var path: String { "\(folder.path)/log" }

    private func write(_ text: String) { folder.write(Array(text.utf8), to: "log") }

    @Test func `the last lines come first, and then the lines that are written after them`() throws {
        write("one\n\ntwo\nthr")
        var tail = LogTail(path)
        #expect(try tail.last(2, ofBytes: 100) == ["", "two"])
        #expect(tail.unfinished == "thr")
        write("one\n\ntwo\nthree\nfour\n")
        #expect(try tail.further() == ["three", "four"])
        #expect(try tail.further() == [])
        #expect(tail.unfinished == "")
    }

    @Test func `a line without its begin is left out`() throws {
        write("one\ntwo\nthree")
        var tail = LogTail(path)
        #expect(try tail.last(9, ofBytes: 11) == ["two"])
        #expect(tail.unfinished == "three")
        var short = LogTail(path)
        #expect(try short.last(9, ofBytes: 3) == [])
        #expect(short.unfinished == "")
    }

    @Test func `nothing before the start is read`() throws {
        write("one\ntwo\n")
        var tail = LogTail(path, from: 4)
        #expect(try tail.last(9, ofBytes: 100) == ["two"])
        var later = LogTail(path, from: 100)
        #expect(try later.last(9, ofBytes: 100) == [])
    }

    @Test func `a log that is not there yet is empty, and a shorter one is new`() throws {
        var tail = LogTail(path)
        #expect(try tail.last(9, ofBytes: 100) == [])
        write("one\ntwo\n")
        #expect(try tail.further() == ["one", "two"])
        write("new\n")
        #expect(try tail.further() == ["new"])
    }

    @Test func `a log that cannot be read is an error with its path`() {
        var tail = LogTail("\(path)/no/file")
        write("")
        #expect {
            try tail.last(1, ofBytes: 100)
        } throws: { error in
            "\(error)" == "\(path)/no/file cannot be read: Not a directory"
        }
    }
}
