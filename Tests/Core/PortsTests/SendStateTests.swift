import Synchronization
import TestSupport
import Testing

@testable import Ports

/// The decisions of a channel about its senders, without a carrier or a thread.
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
        queue.noteSent()
        #expect(queue.mayTry(isLast: false))
    }

    @Test func `a sender that comes when the connection is made does not go before those who have waited for it`() {
        for waits in [false, true] {
            var queue = SendState(isLocal: false)
            queue.connect()
            if waits { queue.add(Sender()) }
            queue.isFull = true
            queue.accept()
            #expect(queue.mayTry(isLast: false) == !waits)
            queue.noteSent()
            #expect(queue.mayTry(isLast: false))
        }
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
