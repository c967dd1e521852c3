import TestSupport
import Testing

@testable import XPC

/// The order of messages and replies that come by two ways.
struct ArrivalOrderTests {
    /// Something that the other end sends.
    private enum Sent: Equatable { case message(Int), reply(Int) }

    /// A message or a reply, with the counts that travel with it.
    private struct Parcel {
        let sent: Sent
        /// The replies before a message, the messages before a reply.
        let before: UInt32
    }

    /// Everything that has come of arrivals so far.
    private final class Receiver {
        var arrivals = ArrivalOrder<Int>()
        var openRequests: Int
        let handled = Shared<[Sent]>([])

        init(openRequests: Int) { self.openRequests = openRequests }

        func take(_ parcel: Parcel) {
            switch parcel.sent {
            case .message(let number): arrivals.add(number, after: parcel.before)
            case .reply(let number):
                openRequests -= 1
                arrivals.add(after: parcel.before) { [handled] in handled.withLock { $0.append(.reply(number)) } }
                arrivals.noteReply()
            }
            while let item = arrivals.next(openRequests: openRequests) {
                switch item {
                case .message(let number): handled.withLock { $0.append(.message(number)) }
                case .outcome(let handler): handler()
                }
            }
        }
    }

    /// All sequences of messages and replies.
    private static func sequences(_ length: Int) -> [[Sent]] {
        (0..<(1 << length)).map { bits in
            (0..<length).map { bits >> $0 & 1 == 0 ? Sent.message($0) : .reply($0) }
        }
    }

    /// All orders in which the two ways may bring what was sent.
    private static func merges(_ messages: ArraySlice<Parcel>, _ replies: ArraySlice<Parcel>) -> [[Parcel]] {
        guard let message = messages.first else { return [Array(replies)] }
        guard let reply = replies.first else { return [Array(messages)] }
        return merges(messages.dropFirst(), replies).map { [message] + $0 }
            + merges(messages, replies.dropFirst()).map { [reply] + $0 }
    }

    private static func parcels(_ sequence: [Sent]) -> (messages: [Parcel], replies: [Parcel]) {
        var (messages, replies) = ([Parcel](), [Parcel]())
        for sent in sequence {
            switch sent {
            case .message: messages.append(Parcel(sent: sent, before: UInt32(replies.count)))
            case .reply: replies.append(Parcel(sent: sent, before: UInt32(messages.count)))
            }
        }
        return (messages, replies)
    }

    @Test func `however two ways bring messages and replies, they are handled in the order in which they were sent`() {
        for length in 1...8 {
            for sequence in Self.sequences(length) {
                let (messages, replies) = Self.parcels(sequence)
                for merge in Self.merges(messages[...], replies[...]) {
                    let receiver = Receiver(openRequests: replies.count)
                    for parcel in merge { receiver.take(parcel) }
                    let handled = receiver.handled.withLock { $0 }
                    if handled != sequence { Issue.record("\(sequence) by \(merge) were handled as \(handled)") }
                }
            }
        }
    }

    @Test func `a message waits for no reply when no request is open, and an error waits for nothing`() {
        let receiver = Receiver(openRequests: 1)
        receiver.take(Parcel(sent: .message(1), before: 5))
        #expect(receiver.handled.withLock { $0 } == [])
        receiver.take(Parcel(sent: .reply(2), before: 0))
        #expect(receiver.handled.withLock { $0 } == [.reply(2), .message(1)])
        receiver.arrivals.add(after: nil) { [handled = receiver.handled] in handled.withLock { $0.append(.reply(3)) } }
        guard case .outcome(let handler)? = receiver.arrivals.next(openRequests: 7) else {
            Issue.record("the error waits")
            return
        }
        handler()
        #expect(receiver.handled.withLock { $0 } == [.reply(2), .message(1), .reply(3)])
    }

    @Test func `a false count keeps a bounded number of messages`() {
        let receiver = Receiver(openRequests: 1)
        for number in 0..<5000 { receiver.take(Parcel(sent: .message(number), before: 1000)) }
        #expect(receiver.handled.withLock { $0.count } == 5000 - ArrivalOrder<Int>.mostMessages)
        receiver.arrivals.isOver = true
        receiver.take(Parcel(sent: .message(5000), before: 1000))
        #expect(receiver.handled.withLock { $0 } == (0...5000).map { .message($0) })
    }
}
