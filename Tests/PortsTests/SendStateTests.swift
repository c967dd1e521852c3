import Synchronization
import TestSupport
import Testing

@testable import Ports

/// The decisions of a channel, without a socket or a thread.
@Suite struct SendStateTests {
    private final class Sender: Waiter {
        func wake() {}
    }

    @Test func `waiters have their turns in the order they came, and one that leaves wakes the next`() {
        var queue = SendState(isLocal: true)
        let (first, second, third) = (Sender(), Sender(), Sender())
        for sender in [first, second, third] { queue.add(sender) }
        #expect(queue.isFirst(first))
        #expect(!queue.isFirst(second))
        #expect(queue.remove(second) == nil)
        #expect(queue.remove(first) === third)
        #expect(queue.remove(first) == nil)
        #expect(queue.remove(third) == nil)
        #expect(queue.waiters.isEmpty)
    }

    @Test func `a sender that comes may try while the first waiter has found room, but not after it has found none`() {
        var queue = SendState(isLocal: true)
        #expect(queue.mayTry(isLast: false))
        #expect(queue.mayTry(isLast: true))
        queue.add(Sender())
        #expect(queue.mayTry(isLast: false))
        #expect(!queue.mayTry(isLast: true))
        queue.isFull = true
        #expect(!queue.mayTry(isLast: false))
        queue.noteSent(1)
        #expect(queue.mayTry(isLast: false))
    }

    @Test func `credit is what the port has taken, and a single message always has it`() {
        var queue = SendState(byteLimit: 10, isLocal: false)
        queue.connect(origin: 5)
        let sender = Sender()
        queue.add(sender)
        #expect(queue.takeCredit(100) == true)
        queue.noteSent(100)
        #expect(queue.takeCredit(1) == false)
        #expect(queue.lacksCredit)
        #expect(queue.isFull)
        #expect(queue.returnCredit(95) === sender)
        #expect(queue.takeCredit(5) == true)
        #expect(queue.takeCredit(6) == false)
        #expect(queue.controlConnectionChanged() === sender)
        #expect(queue.inFlight == 0)
        #expect(queue.takeCredit(6) == true)
        #expect(queue.returnCredit(1) == nil)
    }

    @Test func `without a byte limit nothing is counted`() {
        var queue = SendState(isLocal: false)
        queue.noteSent(.max)
        queue.noteSent(.max)
        #expect(queue.takeCredit(.max) == true)
        #expect(queue.inFlight == 0)
        #expect(queue.sentCount == 2)
    }

    @Test func `each connection that is not accepted gives the owner twice the time, up to some seconds`() {
        var queue = SendState(isLocal: false)
        let now = MonotonicInstant.now
        func patience() -> Int {
            queue.connect(at: now)
            return Int((now.duration(to: queue.acceptDeadline) / .milliseconds(1)).rounded())
        }
        let hadNone = queue.retryUnaccepted()
        #expect(!hadNone)
        var all: [Int] = []
        for _ in 0..<8 {
            all.append(patience())
            let isClosed = queue.retryUnaccepted()
            #expect(isClosed)
            #expect(queue.lifecycle == .unconnected)
        }
        #expect(all == [100, 200, 400, 800, 1600, 3200, 3200, 3200])
        // An accepted connection begins again.
        _ = patience()
        queue.noteSent(1)
        let (isRetried, isLost) = (queue.retryUnaccepted(), queue.loseConnection(sentCount: 1))
        #expect(!isRetried)
        #expect(isLost)
        #expect(patience() == 100)
    }

    @Test func `a socket to another process is connected when it has sent something`() {
        var queue = SendState(isLocal: false, sentCount: 7)
        #expect(!queue.isConnected)
        #expect(queue.dropUnaccepted() == false)
        queue.connect(origin: 3)
        #expect(queue.lifecycle == .connecting)
        #expect(!queue.isConnected)
        #expect(queue.origin == 3)
        #expect(queue.dropUnaccepted() == true)
        #expect(queue.lifecycle == .unconnected)
        queue.connect()
        queue.noteSent(0)
        #expect(queue.isConnected)
        #expect(queue.sentCount == 8)
        #expect(queue.dropUnaccepted() == false)
    }

    @Test func `an idle connection is closed when the port has taken everything, and nothing has followed`() {
        var queue = SendState(isLocal: false)
        #expect(queue.closeIfIdle() == .nothing)
        queue.connect()
        #expect(queue.closeIfIdle() == .close)
        #expect(queue.lifecycle == .unconnected)
        queue.connect()
        queue.noteSent(0)
        #expect(queue.closeIfIdle() == .probe)
        queue.noteProbe(1)
        #expect(queue.closeIfIdle() == .wait)
        #expect(queue.drained(2) == false)
        queue.noteSent(0)
        #expect(queue.drained(1) == false)
        #expect(queue.closeIfIdle() == .probe)
        queue.noteProbe(3)
        let sender = Sender()
        queue.add(sender)
        #expect(queue.drained(3) == false)
        #expect(queue.closeIfIdle() == .nothing)
        _ = queue.remove(sender)
        #expect(queue.drained(3) == true)
        #expect(queue.lifecycle == .unconnected)
        #expect(queue.drained(3) == false)
    }

    @Test func `the end of a finishing port is new once, and an older probe's answer says nothing`() {
        var queue = SendState(isLocal: false)
        queue.connect()
        queue.noteSent(0)
        queue.noteProbe(1)
        queue.noteSent(0)
        let later = MonotonicInstant.now + .seconds(60)
        var steps = [queue.mayProbe()]
        for _ in 0..<2 { steps.append(queue.finish(probingUntil: later).isFirst) }
        steps.append(queue.mayProbe())
        #expect(steps == [false, true, false, true])
        #expect(queue.drained(1) == false)
        #expect(queue.closeIfIdle() == .probe)
        queue.noteProbe(2)
        #expect(queue.drained(2) == true)
        #expect(queue.lifecycle == .finishing)
        // Not for ever, and again when the owner asks again.
        steps = [queue.finish(probingUntil: .now).isFirst, queue.mayProbe()]
        steps += [queue.finish(probingUntil: later).isFirst, queue.mayProbe()]
        _ = queue.end(.invalid)
        steps.append(queue.mayProbe())
        #expect(steps == [false, false, true, true, false])
    }

    @Test func `a late answer to a drain probe does not bring an ended channel back`() {
        for end in [SendState.Lifecycle.invalid, .closed] {
            var queue = SendState(isLocal: false)
            queue.connect()
            queue.noteSent(0)
            queue.noteProbe(1)
            _ = queue.end(end)
            #expect(queue.drained(1) == false)
            #expect(queue.lifecycle == end)
        }
    }

    @Test func `a probe that went with a cut control connection is sent again`() {
        var queue = SendState(isLocal: false)
        queue.connect()
        queue.noteSent(0)
        queue.noteProbe(1)
        #expect(queue.closeIfIdle() == .wait)
        _ = queue.controlConnectionChanged()
        #expect(queue.drained(1) == false)
        #expect(queue.closeIfIdle() == .probe)
    }

    @Test func `the end is final, and closed outlasts invalid`() {
        let port = PortIdentity(PortID(incarnation: .random(), number: 1))
        var queue = SendState(isLocal: true)
        queue.add(Sender())
        #expect((try? queue.check(.isInvalid(port: port))) != nil)
        #expect(queue.end(.invalid).count == 1)
        #expect(errorKind { try queue.check(.isInvalid(port: port)) } == "isInvalid")
        _ = queue.end(.closed)
        #expect(errorKind { try queue.check(.isInvalid(port: port)) } == "unavailable")
        _ = queue.end(.invalid)
        #expect(queue.lifecycle == .closed)
    }

    @Test func `a hundred posted messages wait, and more while they are small and few in all`() {
        let extra = Atomic(0)
        var (large, small) = (PostedMessages(), PostedMessages())
        let adds = { (posted: inout PostedMessages, size: Int) in posted.add(size, extra) }
        #expect((0..<100).allSatisfy { _ in adds(&large, 1 << 20) })
        #expect(!adds(&large, 1))
        #expect((0..<4100).allSatisfy { _ in adds(&small, 10) })
        #expect(!adds(&small, 10))
        // The bound is for all.
        var other = PostedMessages()
        #expect((0..<100).allSatisfy { _ in adds(&other, 10) })
        #expect(!adds(&other, 10))
        small.remove(10, extra)
        #expect(adds(&other, 10))
        #expect(!adds(&small, 10))
        for _ in 0..<4099 { small.remove(10, extra) }
        other.remove(10, extra)
        #expect(extra.load(ordering: .relaxed) == 0)
        #expect(small.count == 0)
        #expect(other.count == 100)
    }
}
