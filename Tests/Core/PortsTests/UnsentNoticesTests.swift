import Testing

@testable import Ports

@Suite struct UnsentNoticesTests {
    private let peers = (0..<3).map { _ in Incarnation.random() }

    private func requests(_ messages: [ControlMessage]) -> [UInt64] {
        messages.map { if case .unanswered(let request) = $0 { request } else { 0 } }
    }

    @Test func `a peer gets its notices in order, and once`() {
        var notices = UnsentNotices()
        for request in 1...6 as ClosedRange<UInt64> {
            notices.add(.unanswered(request), for: peers[Int(request % 2)])
        }
        #expect(requests(notices.take(for: peers[1])) == [1, 3, 5])
        #expect(notices.take(for: peers[1]).isEmpty)
        #expect(requests(notices.take(for: peers[0])) == [2, 4, 6])
        #expect(notices.count == 0)
    }

    @Test func `the peer that has waited longest makes room, and none for itself`() {
        var notices = UnsentNotices(most: 4)
        for request in 1...2 as ClosedRange<UInt64> { notices.add(.unanswered(request), for: peers[0]) }
        for request in 3...6 as ClosedRange<UInt64> { notices.add(.unanswered(request), for: peers[1]) }
        #expect(notices.take(for: peers[0]).isEmpty)
        notices.add(.unanswered(7), for: peers[1])
        #expect(requests(notices.take(for: peers[1])) == [3, 4, 5, 6])
    }

    /// As many as a process may well have open requests.
    @Test func `ten thousand notices of one peer wait`() {
        var notices = UnsentNotices()
        for request in 1...10_000 as ClosedRange<UInt64> {
            notices.add(.unanswered(request), for: peers[0])
        }
        #expect(notices.take(for: peers[0]).count == 10_000)
    }
}
