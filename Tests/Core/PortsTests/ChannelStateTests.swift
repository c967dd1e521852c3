import TestSupport
import Testing

@testable import Ports

/// The decisions of a channel about its way to the port, without a socket or a thread.
@Suite struct ChannelStateTests {
    private final class Sender: Waiter {
        func wake() {}
    }

    /// A channel that has a way of ZeroMQ, and has sent a number of messages.
    private func connected(sent count: Int = 1) -> ChannelState {
        var state = ChannelState(isLocal: false)
        state.connect()
        for _ in 0..<count { state.queue.noteSent() }
        return state
    }

    @Test func `credit is what the port has taken, and a single message always has it`() {
        var credit = Credit(limit: 10)
        var answers = [credit.allows(100)]
        credit.use(100)
        answers.append(credit.allows(1))
        #expect(credit.isLacking)
        answers += [credit.giveBack(95), credit.allows(5), credit.allows(6)]
        #expect(answers == [true, false, true, true, false])
        credit.giveBackAll()
        #expect(credit.inFlight == 0)
        answers = [credit.allows(6), credit.giveBack(1)]
        #expect(answers == [true, false])
    }

    @Test func `without a byte limit nothing is counted`() {
        var credit = Credit(limit: 0)
        credit.use(.max)
        credit.use(.max)
        let isAllowed = credit.allows(.max)
        #expect(isAllowed)
        #expect(credit.inFlight == 0)
    }

    @Test func `each connection that is not accepted gives the owner twice the time, up to some seconds`() {
        var state = ChannelState(isLocal: false)
        let now = MonotonicInstant.now
        func patience() -> Int {
            state.connect(at: now)
            return Int((now.duration(to: state.zeroMQ.acceptDeadline) / .milliseconds(1)).rounded())
        }
        var all: [Int] = []
        for _ in 0..<8 {
            all.append(patience())
            state.retryUnaccepted()
            let lifecycle = state.queue.lifecycle
            #expect(lifecycle == .unconnected)
        }
        #expect(all == [100, 200, 400, 800, 1600, 3200, 3200, 3200])
        // An accepted connection begins again.
        _ = patience()
        state.queue.noteSent()
        state.retryUnaccepted()
        let lost = state.loseConnection(missedSince: nil, sentCount: 1)
        #expect(lost?.isEmpty == true)
        #expect(patience() == 100)
    }

    @Test func `a connection is lost when nothing has followed, and once`() {
        var state = connected(sent: 2)
        let since = state.zeroMQ.miss()
        var isLost = [state.loseConnection(missedSince: since, sentCount: 1) != nil]
        isLost.append(state.loseConnection(missedSince: nil, sentCount: 2) != nil)
        isLost.append(state.loseConnection(missedSince: since, sentCount: 2) != nil)
        isLost.append(state.loseConnection(missedSince: since, sentCount: 2) != nil)
        #expect(isLost == [false, false, true, false])
        let losses = state.zeroMQ.losses
        #expect(losses == 1)
    }

    @Test func `a socket to another process is connected when it has sent something`() {
        var state = ChannelState(isLocal: false, sentCount: 7)
        var found = [state.queue.isConnected]
        state.connect(origin: 3)
        let origin = state.zeroMQ.origin
        #expect(origin == 3)
        found.append(state.queue.isConnected)
        state.queue.noteSent()
        found.append(state.queue.isConnected)
        #expect(found == [false, false, true])
        let count = state.queue.sentCount
        #expect(count == 8)
    }

    @Test func `an idle connection is closed when the port has taken everything, and nothing has followed`() {
        var state = ChannelState(isLocal: false)
        var steps = [state.closeIfIdle()]
        state.connect()
        steps.append(state.closeIfIdle())
        #expect(steps == [.nothing, .closed])

        state.connect()
        state.queue.noteSent()
        state.probe(1)
        steps = [state.closeIfIdle()]
        var isDrained = [state.drained(2)]
        state.queue.noteSent()
        isDrained.append(state.drained(1))
        // No answer is awaited, and without a socket there is no room for another probe.
        steps.append(state.closeIfIdle())
        #expect(steps == [.waits(isProbed: true), .waits(isProbed: false)])
        state.probe(3)
        let sender = Sender()
        state.queue.add(sender)
        isDrained.append(state.drained(3))
        #expect(isDrained == [false, false, false])
        steps = [state.closeIfIdle()]
        #expect(steps == [.nothing])
        _ = state.queue.remove(sender)
        // The answer came while somebody waited to send, so the port is asked again.
        steps = [state.closeIfIdle()]
        #expect(steps == [.waits(isProbed: false)])
        state.probe(4)
        isDrained = [state.drained(4), state.drained(4)]
        #expect(isDrained == [true, false])
        let lifecycle = state.queue.lifecycle
        #expect(lifecycle == .unconnected)
    }

    @Test func `the end of a finishing port is new once, and an older probe's answer says nothing`() {
        var state = connected()
        state.probe(1)
        state.queue.noteSent()
        let later = MonotonicInstant.now + .seconds(60)
        var steps = [state.mayProbe()]
        for _ in 0..<2 { steps.append(state.finish(probingUntil: later).isFirst) }
        steps.append(state.mayProbe())
        #expect(steps == [false, true, false, true])
        steps = [state.drained(1)]
        state.probe(2)
        steps.append(state.drained(2))
        #expect(steps == [false, true])
        let lifecycle = state.queue.lifecycle
        #expect(lifecycle == .finishing)
        // Not for ever, and again when the owner asks again.
        steps = [state.finish(probingUntil: .now).isFirst, state.mayProbe()]
        steps += [state.finish(probingUntil: later).isFirst, state.mayProbe()]
        _ = state.end(.invalid)
        steps.append(state.mayProbe())
        #expect(steps == [false, false, true, true, false])
    }

    @Test func `a late answer to a drain probe does not bring an ended channel back`() {
        for end in [SendState.Lifecycle.invalid, .closed] {
            var state = connected()
            state.probe(1)
            _ = state.end(end)
            let (isDrained, lifecycle) = (state.drained(1), state.queue.lifecycle)
            #expect(!isDrained)
            #expect(lifecycle == end)
        }
    }

    @Test func `a probe that went with a cut control connection is sent again, and all credit returns`() {
        var state = ChannelState(isLocal: false, byteLimit: 10)
        state.connect()
        state.queue.noteSent()
        state.credit.use(100)
        let sender = Sender()
        state.queue.add(sender)
        state.probe(1)
        let woken = state.controlConnectionChanged()
        #expect(woken === sender)
        let inFlight = state.credit.inFlight
        #expect(inFlight == 0)
        _ = state.queue.remove(sender)
        let (isDrained, isAwaited) = (state.drained(1), state.zeroMQ.isProbed(sentCount: 1))
        #expect(!isDrained)
        #expect(!isAwaited)
    }

    @Test func `a channel that waits for a move goes on waiting when its control connection is lost`() {
        var state = connected()
        state.queue.noteSent()
        _ = state.waitForMove(probingUntil: .now + .seconds(60))
        _ = state.controlConnectionChanged()
        let lost = state.queue.lifecycle
        #expect(lost == .moving)
        // The owner says on the next connection that the port stays.
        _ = state.stay()
        let after = state.queue.lifecycle
        #expect(after == .unconnected)
    }

    @Test func `a question for a ring has one answer, and an answer to another question none`() {
        var state = ChannelState(isLocal: false)
        let first = state.askForRing()
        let second = state.askForRing()
        #expect(first == (true, 1))
        #expect(second.isAsked)
        #expect(second.question == nil)
        _ = state.answer(7, with: nil)
        var isAsked = [state.ring.isAsked]
        // The connection with the answer ends.
        _ = state.controlConnectionChanged()
        isAsked.append(state.ring.isAsked)
        let again = state.askForRing()
        #expect(again == (true, 2))
        _ = state.answer(1, with: nil)
        isAsked.append(state.ring.isAsked)
        _ = state.answer(2, with: nil)
        isAsked.append(state.ring.isAsked)
        #expect(isAsked == [true, false, true, false])
        let never = state.askForRing()
        #expect(!never.isAsked)
    }
}

extension ChannelState {
    fileprivate mutating func connect(origin: UInt32 = 0, at now: MonotonicInstant = .now) {
        zeroMQ.open(nil, origin: origin, at: now)
        queue.connect()
    }

    fileprivate mutating func probe(_ number: UInt64) { zeroMQ.noteProbe(number, sentCount: queue.sentCount) }
}
