import RunLoops
import Testing

@testable import Ports

/// The state machine of a port's requests, as a value.
struct RequestRecordsTests {
    private let asker = PortID(incarnation: .random(), number: 1)
    private var entries = RequestRecords()

    private mutating func begin(_ number: UInt64 = 1, of other: PortID? = nil) throws -> RequestRecords.Place {
        let place = entries.begin(other ?? asker, number: number, subject: 7)
        return try #require(place)
    }

    @Test mutating func `a reply ends a request once`() throws {
        let place = try begin()
        #expect(entries[place] == .waiting(nil))
        #expect(entries.reply(place) == (true, nil))
        #expect(entries.reply(place) == (false, nil))
        entries.end(place)
        #expect(entries[place] == nil)
        entries.end(place)
        #expect(entries.post(place) == false)
        #expect(entries.reply(place) == (false, nil))
        #expect(entries.isEmpty)
    }

    @Test mutating func `a reply that waits for room allows no other`() throws {
        let place = try begin()
        #expect(entries.post(place) == false)
        #expect(entries.reply(place).isFirst)
        #expect(entries.post(place) == true)
        entries.giveBack(place)
        #expect(entries[place] == .posted)
        #expect(!entries.reply(place).isFirst)
        #expect(!entries.isEmpty)
        entries.end(place)
    }

    @Test mutating func `a reply that was too large is known until another is sent`() throws {
        let sizes = RequestRecords.TooLarge(size: 2, limit: 1)
        let place = try begin()
        #expect(entries.reply(place) == (true, nil))
        entries.giveBack(place, sizes)
        #expect(entries[place] == .waiting(sizes))
        // Another error.
        #expect(entries.reply(place) == (true, sizes))
        entries.giveBack(place)
        #expect(entries[place] == .waiting(sizes))
        #expect(entries.reply(place) == (true, sizes))
        entries.end(place)
        #expect(entries.reply(place) == (false, nil))
    }

    @Test mutating func `the place of a request that has ended leads to no other`() throws {
        let former = try begin()
        entries.end(former)
        // The same asker may use a number twice.
        let place = try begin()
        #expect(former != place)
        #expect(entries[former] == nil)
        #expect(!entries.reply(former).isFirst)
        entries.end(former)
        #expect(entries[place] == .waiting(nil))
        var places = [place]
        for number in 0..<5000 as Range<UInt64> { places.append(try begin(number)) }
        places.shuffle()
        for place in places { entries.end(place) }
        #expect(entries.isEmpty)
        #expect(places.allSatisfy { entries[$0] == nil })
    }

    @Test mutating func `a port's end waits for no reply to a process that does not read`() throws {
        let live = PortID(incarnation: .random(), number: 1)
        let (silent, other) = (try begin(), try begin(of: live))
        #expect(!entries.isDone)
        entries.isFinishing = true
        #expect(entries.begin(live, number: 2, subject: 7) == nil)
        entries.note(asker.incarnation, isSilent: true)
        entries.end(other)
        // Its handler is at work, and is waited for.
        #expect(!entries.isDone)
        entries.note(asker.incarnation, isSilent: false)
        #expect(entries.reply(silent).isFirst)
        #expect(!entries.isDone)
        entries.note(asker.incarnation, isSilent: true)
        #expect(entries.isDone)
        entries.giveBack(silent)
        #expect(!entries.isDone)
        entries.end(silent)
        #expect(entries.isDone)
    }
}
