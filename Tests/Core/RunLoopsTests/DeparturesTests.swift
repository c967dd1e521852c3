import OwnThread
import TestSupport
import Testing

@testable import RunLoops

@Suite(.ownThread) struct DeparturesTests {
    @Test func `an event has the label of the item that left its address next`() {
        // One address that very many items have had, as short-lived timers have.
        let number = Shared(0)
        let source = ThreadRunLoop.Source1(
            descriptor: -1, label: { "item \(number.withLock { $0 })" }, duplicates: false
        ) { _ in false }
        let (item, times) = (Item.source1(source), 50_000)
        let address = UInt(bitPattern: item.id)
        var departures = Departures()
        for count in 1...times {
            number.withLock { $0 = count }
            departures.note(item, after: 3 * count, limit: 65_536)
        }
        for event in 0..<3 * times {
            #expect(departures.label(at: address, event: event) == "item \(event / 3 + 1)")
        }
        #expect(departures.label(at: address, event: 3 * times) == nil)
        #expect(departures.lastLabel(at: address) == "item \(times)")
        #expect(departures.label(at: address &+ 8, event: 0) == nil)
    }
}
