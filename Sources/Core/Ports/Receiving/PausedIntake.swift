import Glibc
import RunLoops

// The messages of a port that moves: nobody takes any, and those that wait go to the next owner.

extension Intake {
    /// Lets nobody take, until ``takeAgain(with:haveCome:telling:)``.
    func pause() { state.withLock { $0.pause() } }

    /// Lets no ring send any more.
    func stopRings() { state.withLock { $0.inbox.rings.stopAll() } }

    /// Whether a message of a ring waits, because there was no memory for it.
    var hasUntakenInRings: Bool { state.withLock { $0.inbox.rings.hasUntaken } }

    /// Takes what waits at a port that moves, and answers drain probes.
    /// - Parameters:
    ///   - isLent: Whether to leave what the lender of the port would get back.
    ///   - deadline: The end also while more waits, because peers may send without end.
    func takeAll(isLent: Bool, until deadline: MonotonicInstant) -> [LocalMessage] {
        var messages: [LocalMessage] = []
        repeat {
            var (makesRoom, reports) = (false, Inbox.Reports.all)
            let next = state.withLock { state in
                isLent ? state.inbox.nextBesideRings() : state.inbox.next(&reports, makesRoom: &makesRoom)
            }
            if next.isNothing { return messages }
            if let message = message(next, answersProbes: true) { messages.append(LocalMessage(message)) }
        } while !deadline.hasPassed
        return messages
    }

    /// Copies of what waits in rings that were stopped.
    struct RingCopies {
        fileprivate var rest: ArraySlice<(ring: RingReceiver, place: RingReceiver.Place)>
        fileprivate(set) var messages: [LocalMessage] = []
    }

    /// Begins to copy what waits in rings that were stopped, and leaves it there.
    func beginCopy() -> RingCopies { RingCopies(rest: stoppedRings[...]) }

    private var stoppedRings: [(ring: RingReceiver, place: RingReceiver.Place)] {
        state.withLock { $0.inbox.rings.inOrder.map { ($0, $0.place) } }
    }

    /// Goes on with the copy.
    /// - Returns: False when there is no memory for the next one.
    func goOn(with copies: inout RingCopies) -> Bool {
        while let (ring, place) = copies.rest.first {
            var place = place
            switch copyNext(of: ring, &place) {
            case .frame(let frame):
                copies.rest[copies.rest.startIndex].place = place
                if let frame = checked(frame, ring.sender, isCopy: true) { copies.messages.append(LocalMessage(frame)) }
            case .nothing: copies.rest.removeFirst()
            case .missing: return false
            }
        }
        return true
    }

    /// Finds the descriptors of what waits in rings that were stopped, before their senders ask for further ways.
    func findDescriptorsOfRings() {
        for (ring, start) in stoppedRings {
            var place = start
            while case .frame = copyNext(of: ring, &place) {}
        }
    }

    /// Copies the message at a place, and finds its descriptors.
    private func copyNext(of ring: RingReceiver, _ place: inout RingReceiver.Place) -> RingReceiver.Copy {
        switch state.withLock({ _ in ring.copyNext(&place) }) {
        case .frame(let frame):
            state.withLock { $0.inbox.descriptors.find(for: frame) }
            return .frame(frame)
        case .nothing: return .nothing
        case .missing: return .missing
        }
    }

    /// The port has another owner, which has all messages. Its lender gets none of them.
    func forgetLent() {
        // Closed after the lock.
        let descriptors = state.withLock { state in
            state.inbox.forgetLent()
            return state.inbox.descriptors.takeAll()
        }
        withExtendedLifetime(descriptors) {}
    }

    /// Whether nobody takes, because the port moves.
    var isPaused: Bool { state.withLock { $0.isPaused } }

    /// Puts messages in front of all others, and lets takers take again.
    /// - Parameters:
    ///   - haveCome: Whether the messages have come with the port from another process.
    ///   - taken: Where the lender of the port learns how many of them were taken; nil when it is not lent.
    func takeAgain(with messages: [LocalMessage], haveCome: Bool = false, telling taken: TakenCount? = nil) {
        state.withLock { $0.takeAgain(with: messages, haveCome: haveCome, telling: taken) }
        takers.tell()
    }
}
