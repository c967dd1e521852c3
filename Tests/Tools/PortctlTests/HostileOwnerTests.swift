import Foundation
import FuzzTargets
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports
@testable import PortsInspection
@testable import portctl

/// The commands show any answer of a port’s owner.
@Suite(.ownThread) struct HostileOwnerTests {
    @Test func `any answer is shown`() throws {
        var generator = SplitMix64(seed: drawnSeed())
        let answers = FuzzedAnswer.seeds + (0..<3000).map { _ in FuzzedAnswer.hostile(&generator) }
        for (number, bytes) in answers.enumerated() {
            var documents: [String] = []
            if let info: PortInfo = BoundedCoding.decode(from: bytes) { documents.append(json(info)) }
            if let packet: PortEvents = BoundedCoding.decode(from: bytes) {
                for event in packet.events {
                    #expect(!event.line(of: "name").contains("\n"))
                    documents.append(json(NamedEvent(name: "name", event: event)))
                }
            }
            let recordings = FuzzedAnswer.recordings(of: bytes)
            documents.append(json(recordings.map(LoopDrawing.init)))
            for recording in recordings { #expect(!"\(recording.shown)".isEmpty) }
            // Pages are large.
            if number % 20 == 0 {
                let drawing = LoopsDrawing(subject: "x", recordings: recordings)
                #expect(Page.timeline.html(of: drawing, text: drawing.text).hasSuffix("</html>\n"))
                documents.append(json(LoopTrace(of: "x", owner: 1, recordings: recordings)))
            }
            let text = "[\(documents.joined(separator: ","))]"
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
        let shown = json(text)
        #expect(shown.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control })
        #expect(shown.contains("\\u009b"))
        #expect(shown.contains("\\u007f"))
    }
}
