import Foundation
import FuzzTargets
import RunLoops
import TestSupport
import Testing

@testable import Ports
@testable import portctl

/// Whatever the owner of a port answers, the commands show it.
@Suite struct HostileOwnerTests {
    @Test func `any answer is shown`() throws {
        var generator = SplitMix64(seed: drawnSeed())
        let answers = FuzzedAnswer.seeds + (0..<3000).map { _ in FuzzedAnswer.spoilt(&generator) }
        for (number, bytes) in answers.enumerated() {
            let service = PortService(bytes: bytes)
            var documents = [service.json]
            for event in PortEvents(bytes: bytes).events {
                #expect(!event.line(of: "name").contains("\n"))
                documents.append(event.json(of: "name"))
            }
            let recordings = FuzzedAnswer.recordings(of: bytes)
            documents += recordings.map(\.json)
            for recording in recordings { #expect(!"\(recording.shown)".isEmpty) }
            // Pages are large.
            if number % 20 == 0 {
                #expect(TimelinePage(subject: "x", recordings: recordings).html.hasSuffix("</html>\n"))
            }
            let text = "\(JSON.array(documents))"
            #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(text.utf8)) }
        }
    }

    @Test func `no label begins a line of its own`() throws {
        let label = "x\nwrote /etc/passwd"
        let span = LoopRecording.Span(
            .callout(.init(.source, label: label)), mode: .init("a\nb"), depth: 0, start: .init(nanoseconds: 1),
            end: .init(nanoseconds: 2))
        let recording = LoopRecording(
            loop: "thread\n1", start: .init(nanoseconds: 0), end: .init(nanoseconds: 3), spans: [span])
        let lines = "\(recording.shown)".split(separator: "\n")
        try #require(lines.count == 2, "\(lines)")
        #expect(lines[1].contains("x\\nwrote"), "\(lines)")
    }

    @Test func `no control character of a string is written as it is`() {
        let text = String(String.UnicodeScalarView((0..<0xA0).compactMap { Unicode.Scalar($0) }))
        let shown = "\(JSON.string(text))"
        #expect(shown.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control })
        #expect(shown.contains("\\u009b"))
        #expect(shown.contains("\\u007f"))
    }
}
