import RunLoops

// The ring as the way of a channel: asking for one, and sending by it.

extension SendChannel {
    /// Sends a message of one component of bytes by the ring, if it has room. The short way of most messages.
    @inline(__always)
    func sendByRing(id: UInt32, bytes: RawSpan) -> Bool {
        let size = Wire.plainHeaderSize + bytes.byteCount
        guard hasShortWay, size <= right.limit else { return false }
        return state.withLock { state in
            guard state.ring.isOpen, state.queue.lifecycle == .connected, state.queue.mayTry(isLast: false) else {
                return false
            }
            let sentCount = state.queue.sentCount + 1
            let outcome = state.ring.write(size, sentCount: sentCount, channels.housekeeping) { start in
                Wire.writePlainHeader(id: id, byteCount: bytes.byteCount, to: start)
                bytes.withUnsafeBytes { bytes in
                    guard let source = bytes.baseAddress else { return }
                    (start + Wire.plainHeaderSize).copyMemory(from: source, byteCount: bytes.count)
                }
            }
            guard note(outcome, &state) else { return false }
            state.queue.noteSent()
            return true
        }
    }

    /// Sends a frame by the ring, if it has room.
    func sendByRing(_ frame: borrowing Frame, _ state: inout ChannelState) -> Bool {
        note(state.ring.send(frame, sentCount: state.queue.sentCount + 1, channels.housekeeping), &state)
    }

    /// - Returns: Whether the message was sent.
    @inline(__always)
    private func note(_ outcome: RingConnection.Outcome, _ state: inout ChannelState) -> Bool {
        if outcome == .sent {
            if state.ring.startsTrimming() { trimLater() }
            return true
        }
        noteUnsent(outcome, &state)
        return false
    }

    @inline(never)
    func noteUnsent(_ outcome: RingConnection.Outcome, _ state: inout ChannelState) {
        switch outcome {
        case .sent, .full: break
        case .ended: state.loseRing()
        case .forbidden:
            guard state.closeDrainedRing() else { break }
            tellRingClosed(&state)
            state.ring.refuse()
        }
    }

    // MARK: Connecting

    /// Asks the owner for a ring, if both sides can map one.
    /// - Parameter blocks: Whether the calling thread waits for the answer.
    /// - Returns: False when the channel has to send by ZeroMQ.
    func askForRing(_ owner: ControlConnection, blocks: Bool) -> Bool {
        guard channels.control.takesRings, owner.takesRings else { return false }
        let (isAsked, question) = blocks && !mayAwaitRing ? (false, nil) : state.withLock { $0.askForRing() }
        guard let question else { return isAsked }
        owner.send(.wantsRing(id.number, question: question))
        // The end of the connection may have been reported before the question.
        if owner.isClosed { controlConnectionChanged() }
        return isAsked
    }

    /// Whether the calling thread may wait for the answer. While a handler blocks the housekeeping thread, nobody hears it.
    private var mayAwaitRing: Bool { !channels.housekeeping.isCurrent }

    /// Gives up a question whose answer the calling thread must not wait for. The next attempt connects by ZeroMQ.
    /// - Returns: Whether the question was given up.
    func giveUpAwaitingRing(_ state: inout ChannelState) -> Bool {
        state.ring.isAsked && !mayAwaitRing && state.giveUpAsking()
    }

    /// The owner has made a ring.
    func ringCame(_ descriptors: [OwnedDescriptor], _ question: UInt64) {
        var made: RingSender?
        if descriptors.count == 2, let memory = RingMemory(descriptors[0].number) {
            made = RingSender(
                memory, Bell(descriptors[1]), queueLimit: Int(right.queueLimit), byteLimit: right.byteLimit)
        }
        let (isUsed, waiter) = state.withLock { $0.answer(question, with: made.take()) }
        if isUsed {
            log.debug("opened a ring to \(identity)")
            channels.connections.opened(self)
        } else {
            channels.control.send(.ringClosed(id.number, question: question), to: id.incarnation)
            // The question came to the owner after that.
            state.withLock { if $0.zeroMQ.isOpen { tellZeroMQ(isOpen: true) } }
        }
        waiter?.wake()
    }

    /// The owner makes no ring.
    func ringWasRefused(_ question: UInt64) {
        let (_, waiter) = state.withLock { $0.answer(question, with: nil) }
        waiter?.wake()
    }

    // MARK: Memory

    /// Gives the memory of a peak back, when nothing waits.
    private func trimLater() { channels.housekeeping.perform(after: .seconds(1)) { [weak self] in self?.trim() } }

    private func trim() { if !state.withLock({ $0.ring.trim() }) { trimLater() } }
}
