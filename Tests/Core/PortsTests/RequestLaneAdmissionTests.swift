import Testing

@testable import Ports

/// Which requests a `serve` with lanes handles, lets wait, and refuses.
struct RequestLaneAdmissionTests {
    private let slow = RequestKind(name: "Slow", lane: RequestLane("slow", atMost: 1, whenFull: .wait(upTo: 2)))
    private let strict = RequestKind(name: "Strict", lane: RequestLane(atMost: 1, whenFull: .refuse(beyond: 1)))

    private func table(atMost limit: Int = 2, lasting: Int? = nil) -> RequestLaneAdmission<Int> {
        RequestLaneAdmission(RequestLane(atMost: limit), lasting: lasting.map(RequestLane.lasting(atMost:)))
    }

    @Test func `without lanes, nothing is taken that cannot be handled`() {
        var table = table()
        #expect(table.mayTake)
        #expect(table.handlers == (0, 2))
        #expect(table.arrive(nil, 1) { 1 } == .start(0))
        #expect(table.mayTake)
        #expect(table.arrive(nil, 1) { 2 } == .start(0))
        #expect(!table.mayTake)
        #expect(table.fullLane == "")
        #expect(table.handlers == (2, 2))
        #expect(table.end(0) == nil)
        #expect(table.mayTake)
        #expect(table.fullLane == nil)
        #expect(table.handlers == (1, 2))
    }

    @Test func `with lanes, some wait for their lane, in order, and then nothing is taken`() {
        var table = table()
        table.takesAhead = true
        #expect(table.arrive(slow, 7) { 1 } == .start(1))
        #expect(table.arrive(slow, 7) { 2 } == .wait(1, 1))
        #expect(table.mayTake)
        // Another id, the same lane.
        #expect(table.arrive(slow, 8) { 3 } == .wait(1, 2))
        #expect(!table.mayTake)
        #expect(table.fullLane == "slow")
        #expect(table.handlers == (1, 3))
        #expect(table.end(1) == 2)
        #expect(table.mayTake)
        #expect(table.end(1) == 3)
        #expect(table.end(1) == nil)
        #expect(table.handlers == (0, 3))
    }

    @Test func `when the port finishes, no request waits any more, and a free place is still given away`() {
        var table = table()
        table.takesAhead = true
        #expect(table.arrive(slow, 7) { 1 } == .start(1))
        #expect(table.arrive(slow, 7) { 2 } == .wait(1, 1))
        #expect(table.finish() == [2])
        #expect(table.arrive(slow, 7) { 3 } == .turnAway)
        // Such a request was taken before.
        #expect(table.arrive(nil, 1) { 4 } == .start(0))
        #expect(table.end(1) == nil)
        #expect(table.arrive(slow, 7) { 5 } == .start(1))
    }

    @Test func `a hundred requests without a lane are taken ahead, where there are lanes`() {
        var table = table(atMost: 1)
        table.takesAhead = true
        #expect(table.arrive(nil, 1) { 0 } == .start(0))
        for number in 1...100 {
            #expect(table.mayTake)
            #expect(table.arrive(nil, 1) { number } == .wait(0, UInt64(number)))
        }
        #expect(!table.mayTake)
        // Without a lane that could use it, also of those that wait.
        table.takesAhead = false
        #expect(!table.mayTake)
    }

    @Test func `a lane that refuses is always taken from`() {
        var table = table()
        table.takesAhead = true
        #expect(table.arrive(strict, 3) { 1 } == .start(1))
        #expect(table.arrive(strict, 3) { 2 } == .wait(1, 1))
        #expect(table.mayTake)
        #expect(table.arrive(strict, 3) { 3 } == .refuse(limit: 1))
        // A lane without a name is that of one id.
        #expect(table.arrive(strict, 4) { 4 } == .start(2))
        #expect(table.end(1) == 2)
        #expect(table.arrive(strict, 3) { 5 } == .wait(1, 2))
    }

    @Test func `requests that may last have a limit, which may be 0, and are no handlers`() {
        let stream = RequestKind(name: "Stream", mayLast: true)
        var table = table(lasting: 0)
        #expect(table.arrive(stream, 1) { 1 } == .refuse(limit: 0))
        table = self.table(lasting: 1)
        #expect(table.arrive(stream, 1) { 1 } == .start(1))
        #expect(table.arrive(stream, 1) { 2 } == .refuse(limit: 1))
        #expect(table.mayTake)
        #expect(table.handlers == (0, 2))
        table = self.table()
        #expect(table.arrive(stream, 1) { 1 } == .start(0))
    }

    @Test func `those that nobody waits for any more make room, and the end takes out the rest`() {
        var table = table()
        table.takesAhead = true
        for number in 0...2 { _ = table.arrive(slow, 7) { number } }
        #expect(!table.mayTake)
        #expect(table.withdraw(1, 1) == 1)
        #expect(table.withdraw(1, 1) == nil)
        #expect(table.mayTake)
        #expect(table.end(1, isLast: true) == nil)
        #expect(table.removeWaiting() == [2])
        #expect(table.removeWaiting() == [])
        #expect(table.handlers == (0, 3))
    }

    @Test func `limits beyond all numbers add up`() {
        var table = RequestLaneAdmission<Int>(RequestLane(atMost: .max), lasting: nil)
        _ = table.arrive(slow, 1) { 1 }
        #expect(table.handlers == (1, .max))
    }
}
