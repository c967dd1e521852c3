import OwnThread
import TestSupport
import Testing

/// Plays simulated machines. `make simulate` plays more of them. A sanitizer replaces the same functions of the C library.
@Suite(.ownThread, .enabled(if: sanitizerOptions.isEmpty && !isThreadSanitized)) struct SimulationTests {
    private func simulate(_ words: String...) -> (status: Int32?, lines: [String]) { simulate(words) }

    private func simulate(_ words: [String]) -> (status: Int32?, lines: [String]) {
        let run = Run([Child.folder + "/simulate"] + words)
        // The machines share the processors with all other tests.
        let status = run.child.wait(before: .now + .seconds(600))
        return (status, String(decoding: run.output, as: UTF8.self).split(separator: "\n").map(String.init))
    }

    @Test func `machines keep their promises, whatever fails`() {
        let found = simulate("--jobs", "1", "1", "25")
        #expect(found.lines == ["25 machines: all promises kept"])
        #expect(found.status == 0)
    }

    @Test(arguments: corpus)
    func `machines that once broke a promise keep it`(seed: Int) {
        let found = simulate("\(seed)")
        #expect(found.status == 0, "\(found.lines)")
    }

    /// The seeds of machines that have broken a promise. A change of the library gives a seed another story, so that these
    /// are seeds like others a while later.
    private static let corpus = [15, 45, 94, 351, 466, 702]

    @Test func `a seed tells the same story each time`() {
        let (first, second, other) = (simulate("7"), simulate("7"), simulate("8"))
        #expect(first.lines == second.lines)
        #expect(first.lines.count == 1)
        #expect(first.lines != other.lines)
        let told = simulate("--steps", "200", "--tell", "7")
        #expect(told.lines.count > 200)
        #expect(told.lines.last?.hasPrefix("seed 7:") == true)
        #expect(simulate("--steps", "200", "--tell", "7").lines == told.lines)
    }

    @Test(arguments: [[], ["one"], ["2", "1"], ["1", "2", "3"], ["--steps", "-1", "1"], ["--jobs", "0", "1"]])
    func `words that are no options get the usage`(words: [String]) {
        let found = simulate(words)
        #expect(found.lines.first?.hasPrefix("usage: simulate") == true)
        #expect(found.status == 64)
    }
}
