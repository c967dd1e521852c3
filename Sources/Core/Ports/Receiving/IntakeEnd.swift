import Glibc
import RunLoops

// What becomes of the messages that wait at the end of a port.

extension Intake {
    /// Leaves to the lender of the port what it has, too.
    /// - Returns: What is left.
    func leaveToLender() -> [LocalMessage] {
        let (messages, rings) = state.withLock { $0.inbox.leaveToLender() }
        return messages + rings.flatMap { ring in left(of: ring.sender, until: .distantPast) { ring.nextLeft() } }
    }

    /// The messages left in a ring whose receiver is gone.
    /// - Parameter deadline: The end of the wait for memory for a message.
    func messages(leftIn ring: LeftRing, until deadline: MonotonicInstant) -> [LocalMessage] {
        left(of: ring.sender, until: deadline) { ring.next() }
    }

    private func left(
        of sender: SenderCredentials, until deadline: MonotonicInstant, _ next: () -> RingReceiver.Copy
    ) -> [LocalMessage] {
        var messages: [LocalMessage] = []
        while true {
            switch next() {
            case .frame(let frame):
                if let frame = checked(frame, sender) { messages.append(LocalMessage(frame)) }
            case .nothing: return messages
            case .missing where !deadline.hasPassed: usleep(10_000)
            case .missing:
                // Without a wait, the lender finds them there.
                if deadline != .distantPast {
                    log.warning(
                        "\(channel.identity) may lose messages that wait in a ring: there is no memory for them")
                }
                return messages
            }
        }
    }

    /// Whether nothing is taken any more.
    var isClosed: Bool { state.withLock { $0.lifecycle.isClosed } }

    /// Takes what waits, and gives it to `refuse`, after the last turn.
    /// - Parameter deadline: From then on only local messages are taken, because peers may send without end.
    func refuseQueued(until deadline: MonotonicInstant, _ refuse: (ReceivedMessage) -> Void) {
        state.withLock { $0.inbox.rings.endAllWhenEmpty() }
        while true {
            var (makesRoom, reports) = (false, Inbox.Reports.all)
            let next = state.withLock { state in
                if deadline.hasPassed { state.inbox.endPeers() }
                return state.inbox.next(&reports, makesRoom: &makesRoom)
            }
            if next.isNothing { return }
            // Nothing was taken that a probe asks about.
            if let message = message(next, answersProbes: false) { refuse(message) }
        }
    }

    /// Takes nothing more, and releases the handlers.
    /// - Returns: What has the socket, to be closed.
    func close() -> ZeroMQIntake? {
        var handlers = TappedHandlers(PortHandlers())
        var sockets: [DescriptorSocket] = []
        let socket = state.withLock { state in
            state.lifecycle.finish()
            state.inbox.endPeers()
            sockets = state.inbox.descriptors.closeAll()
            swap(&state.handlers, &handlers)
            return state.inbox.zeroMQ.close()
        }
        withExtendedLifetime((handlers, sockets)) {}
        return socket
    }
}
