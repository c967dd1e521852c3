import RunLoops

// Sending the descriptors of messages to a port of another process.

extension SendChannel {
    /// Sends a frame with its descriptors, which go ahead of it.
    /// - Returns: False when there is no room, or no way for descriptors yet.
    func send(
        _ frame: inout Frame, _ descriptors: [MessageDescriptor], _ state: inout ChannelState
    ) -> Result<Bool, PortError> {
        state.descriptors.obstacle = .none
        do throws(PortError) {
            // Once the descriptors are sent, the carrier has to take the frame.
            guard hasRoom(for: frame, &state) else { return .success(false) }
            guard state.descriptors.isOpen else {
                try askForDescriptorSocket(&state)
                return .success(false)
            }
            guard try state.descriptors.send(descriptors, aheadOf: &frame), try send(&frame, &state).get() else {
                return .success(false)
            }
            state.descriptors.noteSent(descriptors.count)
            descriptors.noteSent()
            return .success(true)
        } catch {
            return .failure(error)
        }
    }

    private func hasRoom(for frame: borrowing Frame, _ state: inout ChannelState) -> Bool {
        guard state.ring.isOpen else { return state.zeroMQ.hasRoom }
        guard let obstacle = state.ring.obstacle(to: frame.count) else { return true }
        noteUnsent(obstacle, &state)
        return false
    }

    /// The next step of a waiter whose descriptors have to wait; nil when something else has to come first.
    func stepForDescriptors(
        _ waiter: some Waiter, _ state: borrowing ChannelState, until limit: MonotonicInstant
    ) throws(PortError) -> NextStep? {
        switch state.descriptors.obstacle {
        case .none: return nil
        case .answer:
            guard waiter is ThreadWaiter, channels.housekeeping.isCurrent else { return .wait(nil, until: limit) }
            throw .unavailable(reason: "the library's own thread cannot wait for a way for descriptors to \(identity)")
        case .budget: return .wait(state.descriptors.descriptor, until: min(limit, .now + Self.lookPeriod))
        case .silent: return .wait(nil, until: min(limit, .now + .milliseconds(10)))
        }
    }

    // MARK: Memory

    /// Whether memory may go in place of bytes now. The bytes of a port with a byte limit are counted on their way.
    func passesMemory(_ count: Int) -> Bool {
        right.byteLimit == 0 && state.withLock { $0.descriptors.hasRoom(for: count) }
    }

    /// Asks for a way, so that the next message finds one.
    func askForUnusedWay(_ state: inout ChannelState) {
        guard right.byteLimit == 0, !state.descriptors.isOpen else { return }
        // Without one, bytes are copied.
        try? askForDescriptorSocket(&state)
        state.descriptors.obstacle = .none
    }

    // MARK: Connecting

    private func askForDescriptorSocket(_ state: inout ChannelState) throws(PortError) {
        func cannotConnect(_ reason: String) -> PortError { .cannotConnect(port: identity, reason: reason) }
        if state.descriptors.takeRefusal() {
            throw cannotConnect("its process has no descriptor left to take others with")
        }
        state.descriptors.obstacle = state.descriptors.isAsked ? .answer : .silent
        guard !state.descriptors.isAsked, let owner = channels.control.existing(id.incarnation) else { return }
        guard owner.takesDescriptors else { throw cannotConnect("its process takes no descriptors") }
        owner.send(.wantsDescriptorSocket(id.number, question: state.descriptors.ask()))
        // The end of the connection may have been reported before the question.
        if owner.isClosed { return state.descriptors.giveUpAsking() }
        state.descriptors.obstacle = .answer
    }

    /// The owner has answered the question for a socket.
    /// - Parameter descriptor: Nil when the owner makes none.
    func descriptorSocketCame(_ descriptor: OwnedDescriptor?, _ question: UInt64) {
        let socket = descriptor.map(DescriptorSocket.init)
        let (isUsed, waiter) = state.withLock { state in
            (state.descriptors.answer(question, with: socket), state.queue.waiters.first)
        }
        if isUsed { waiter?.wake() } else if socket != nil { tellDescriptorSocketClosed(question) }
    }

    private func tellDescriptorSocketClosed(_ question: UInt64) {
        channels.control.send(.descriptorSocketClosed(id.number, question: question), to: id.incarnation)
    }

    /// Closes the socket with the idle connection.
    func closeUnusedDescriptorSocket() {
        let question = state.withLock { state -> UInt64? in
            guard state.descriptors.isUnused() else { return nil }
            state.descriptors.close()
            return state.descriptors.question
        }
        if let question { tellDescriptorSocketClosed(question) }
    }
}
