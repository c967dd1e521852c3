import RunLoops
import ZeroMQ

// Sending by lanes, and getting one.

extension SendChannel {
    /// Sends a message of one component of bytes by the lane, if it has room. The short way of most messages.
    @inline(__always)
    func sendByLane(id: UInt32, bytes: RawSpan) -> Bool {
        let size = Wire.plainHeaderSize + bytes.byteCount
        guard hasShortWay, size <= right.limit else { return false }
        return state.withLock { state in
            guard state.lane.isOpen, state.queue.lifecycle == .connected, state.queue.mayTry(isLast: false) else {
                return false
            }
            let sentCount = state.queue.sentCount + 1
            let outcome = state.lane.write(size, sentCount: sentCount, channels.housekeeping) { start in
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

    /// Sends a frame by the lane, if it has room.
    func sendByLane(_ frame: borrowing ZeroMQFrame, _ state: inout ChannelState) -> Bool {
        let outcome = state.lane.send(frame, sentCount: state.queue.sentCount + 1, channels.housekeeping) {
            number, makeMemory in
            guard let owner = channels.control.existing(id.incarnation), owner.hasRoom, let memory = makeMemory() else {
                return false
            }
            return owner.sendAtOnce(.memory(id.number, number: number), [memory])
        }
        return note(outcome, &state)
    }

    /// - Returns: Whether the message was sent.
    @inline(__always)
    private func note(_ outcome: LaneConnection.Outcome, _ state: inout ChannelState) -> Bool {
        if outcome == .sent {
            if state.lane.startsTrimming() { trimLater() }
            return true
        }
        noteUnsent(outcome, &state)
        return false
    }

    @inline(never)
    func noteUnsent(_ outcome: LaneConnection.Outcome, _ state: inout ChannelState) {
        switch outcome {
        case .sent, .full: break
        case .ended: state.loseLane()
        case .forbidden:
            guard state.closeDrainedLane() else { break }
            tellLaneClosed(&state)
            state.lane.refuse()
        }
    }

    // MARK: Connecting

    /// Asks the owner for a lane, if both sides can map one.
    /// - Parameter blocks: Whether the calling thread waits for the answer.
    /// - Returns: False when the channel has to send by ZeroMQ.
    func askForLane(_ owner: ControlConnection, blocks: Bool) -> Bool {
        guard channels.control.takesLanes, owner.takesLanes else { return false }
        let (isAsked, question) = blocks && !mayAwaitLane ? (false, nil) : state.withLock { $0.askForLane() }
        guard let question else { return isAsked }
        owner.send(.wantsLane(id.number, question: question))
        // The end of the connection may have been reported before the question.
        if owner.isClosed { controlConnectionChanged() }
        return isAsked
    }

    /// Whether the calling thread may wait for the answer. While a handler blocks the housekeeping thread, nobody hears it.
    private var mayAwaitLane: Bool { !channels.housekeeping.isCurrent }

    /// Gives up a question whose answer the calling thread must not wait for. The next attempt connects by ZeroMQ.
    /// - Returns: Whether the question was given up.
    func giveUpAwaitingLane(_ state: inout ChannelState) -> Bool {
        state.lane.isAsked && !mayAwaitLane && state.giveUpAsking()
    }

    /// The owner has made a lane.
    func laneCame(_ descriptors: [OwnedDescriptor], _ question: UInt64) {
        var made: LaneSender?
        if descriptors.count == 2, let memory = LaneMemory(descriptors[0].number) {
            made = LaneSender(
                memory, LaneBell(descriptors[1]), queueLimit: Int(right.queueLimit), byteLimit: right.byteLimit)
        }
        let (isUsed, waiter) = state.withLock { $0.answer(question, with: made.take()) }
        if isUsed {
            log.debug("opened a lane to \(identity)")
            channels.connections.opened(self)
        } else {
            channels.control.send(.laneClosed(id.number, question: question), to: id.incarnation)
            // The question came to the owner after that.
            state.withLock { if $0.zeroMQ.isOpen { tellZeroMQ(isOpen: true) } }
        }
        waiter?.wake()
    }

    /// The owner makes no lane.
    func laneWasRefused(_ question: UInt64) {
        let (_, waiter) = state.withLock { $0.answer(question, with: nil) }
        waiter?.wake()
    }

    // MARK: Memory

    /// Gives the memory of a peak back, when nothing waits.
    private func trimLater() { channels.housekeeping.perform(after: .seconds(1)) { [weak self] in self?.trim() } }

    private func trim() { if !state.withLock({ $0.lane.trim() }) { trimLater() } }
}
