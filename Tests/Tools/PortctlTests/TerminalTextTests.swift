import Foundation
import OwnThread
import TestSupport
import Testing

@testable import PortsInspection
@testable import portctl

/// Texts for a terminal, made of values.
@Suite struct TerminalTextTests {
    @Test func `a long name loses its middle, and keeps its ends`() {
        #expect(shortened("com.example.index", to: 17) == "com.example.index")
        #expect(shortened("com.example.index", to: 11) == "com.e…index")
        #expect(shortened("com.example.index", to: 1) == "…")
        #expect(shortened("x", to: 0) == "")
        for width in 1...12 {
            #expect(columns(of: shortened("目录服务的名称很长", to: width)) <= width)
        }
        #expect(columns(of: "目a") == 3)
    }

    @Test func `a table fits its width, without a wrapped row, and has all text without a width`() {
        let rows = [
            ["NAME", "PID", "STATE", "PROGRAM"],
            ["com.example.a-very-long-name-of-a-service", "12345", "unserved", "/srv/programs/long/path/serviced"],
            ["x", "1", "served", "/bin/x"],
        ]
        let table = Table(rows: rows, stateColumn: 2, whole: 1...2)
        #expect(table.lines()[1].contains(rows[1][0]))
        #expect(table.lines()[1].hasSuffix(rows[1][3]))
        for width in 1...90 {
            #expect(table.lines(toWidth: width).allSatisfy { columns(of: $0) <= width })
        }
        let lines = table.lines(toWidth: 60)
        #expect(lines[1].contains("unserved"))
        #expect(lines[1].contains("12345"))
        #expect(lines[1].contains("…"))
        let starts = lines.map { line in line.range(of: line == lines[0] ? "STATE" : "ed")?.lowerBound }
        #expect(starts.allSatisfy { $0 != nil })
        #expect(table.lines(isStyled: true)[1].contains("\u{1B}[1;31munserved\u{1B}[0m"))
        #expect(!table.lines(isStyled: true)[2].contains("\u{1B}"))
    }

    @Test func `a text is wrapped between its words`() {
        #expect(wrapped("one two three", toWidth: nil) == ["one two three"])
        #expect(wrapped("one two three", toWidth: 8) == ["one two", "three"])
        #expect(wrapped("incomprehensible no", toWidth: 5) == ["incomprehensible", "no"])
    }

    // MARK: Who waits for whom

    private func ports(_ waits: [String: [String]]) -> [String: WaitChain.Port] {
        Dictionary(
            uniqueKeysWithValues: waits.map { name, awaited in
                (name, WaitChain.Port(id: name, name: name, condition: .stuck, awaited: awaited))
            })
    }

    @Test func `a chain of waits leads to its root`() throws {
        let ports = ports(["a": ["x", "b"], "b": ["c"], "c": ["x"]])
        let chain = try #require(WaitChain(from: "a", in: ports))
        #expect(chain.root?.name == "c")
        #expect(chain.deadlockStart == nil)
        #expect(chain.text == "“a” waits for “b”, “b” waits for “c”: the root is “c”, which is stuck")
        #expect(chain.remedy == "look at “c” first")
        #expect(WaitChain(from: "c", in: ports) == nil)
        #expect(WaitChain(from: "x", in: ports) == nil)
    }

    @Test func `a cycle of waits is a deadlock`() throws {
        let chain = try #require(WaitChain(from: "a", in: ports(["a": ["b"], "b": ["a"]])))
        #expect(chain.root == nil)
        #expect(chain.text == "“a” waits for “b”, “b” waits for “a”: a deadlock")
        let behind = try #require(WaitChain(from: "a", in: ports(["a": ["b"], "b": ["c"], "c": ["b"]])))
        #expect(behind.text == "“a” waits for “b”, “b” waits for “c”, “c” waits for “b”: a deadlock")
        let own = try #require(WaitChain(from: "a", in: ports(["a": ["a"]])))
        #expect(own.text == "“a” waits for “a”: a deadlock")
        // Also behind the second port that one waits for, and behind a way that was followed before.
        let second = try #require(WaitChain(from: "a", in: ports(["a": ["b", "c"], "b": ["x"], "c": ["a"]])))
        #expect(second.text == "“a” waits for “c”, “c” waits for “a”: a deadlock")
        let crossed = ports(["a": ["b", "c"], "b": ["d"], "c": ["d", "e"], "d": [], "e": ["c"]])
        let behindSeen = try #require(WaitChain(from: "a", in: crossed))
        #expect(behindSeen.text == "“a” waits for “c”, “c” waits for “e”, “e” waits for “c”: a deadlock")
    }
}
