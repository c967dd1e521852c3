import Glibc
import RunLoops
import ZeroMQ

// Sending by lanes.

extension SendChannel {
    private enum LaneOutcome { case sent, full, ended }

    /// Sends a message of one component of bytes by the lane, if it has room. The short way of most messages.
    @inline(__always)
    func sendByLane(id: UInt32, bytes: RawSpan) -> Bool {
        let size = Wire.plainHeaderSize + bytes.byteCount
        guard hasShortWay, size <= right.limit else { return false }
        return state.withLock { state in
            guard state.lane.isOpen, state.queue.lifecycle == .connected, state.queue.mayTry(isLast: false) else {
                return false
            }
            let outcome = write(size, messageSize: size, LaneMemory.Kind.message, &state) { start in
                Wire.writePlainHeader(id: id, byteCount: bytes.byteCount, to: start)
                bytes.withUnsafeBytes { bytes in
                    guard let source = bytes.baseAddress else { return }
                    (start + Wire.plainHeaderSize).copyMemory(from: source, byteCount: bytes.count)
                }
            }
            guard outcome == .sent else {
                if outcome == .ended { loseLane(&state) }
                return false
            }
            state.queue.noteSent(0)
            return true
        }
    }

    /// Writes a record, and rings the bell if the receiver sleeps.
    @inline(__always)
    private func write(
        _ count: Int, messageSize: Int, _ kind: UInt32, _ state: inout ChannelState,
        _ body: (UnsafeMutableRawPointer) -> Void
    ) -> LaneOutcome {
        guard count <= state.lane.sender?.largestRecord ?? 0,
            let start = state.lane.sender?.reserve(count, messageSize: messageSize)
        else { return state.lane.sender?.isEnded == true ? .ended : .full }
        body(start)
        let sentCount = state.queue.sentCount + 1
        switch state.lane.sender?.publish(count, kind: kind, messageSize: messageSize, sentCount: sentCount) {
        case .queued?: break
        case .opened?: ring(&state)
        case .ended?, nil: return .ended
        }
        if state.lane.sender?.populated ?? 0 > LaneSender.soft { trimLater(&state) }
        return .sent
    }

    @inline(never)
    private func ring(_ state: inout ChannelState) {
        guard let bell = state.lane.sender?.bell, !bell.ring() else { return }
        ringAgain(bell)
    }

    /// The kernel had no memory for the ring.
    private func ringAgain(_ bell: LaneBell) {
        channels.housekeeping.perform(after: .milliseconds(10)) { [weak self] in
            if !bell.ring() { self?.ringAgain(bell) }
        }
    }

    /// Sends a frame by the lane.
    func trySendByLane(_ message: inout OutgoingMessage, _ state: inout ChannelState) -> Bool {
        let text = hasShortWay || !Log.tellsMessages ? nil : message.text
        guard case .frame(let frame) = consume message else { fatalError("a local message has no lane") }
        state.lane.waitsForConnection = false
        let outcome =
            if frame.count <= state.lane.sender?.largestRecord ?? 0 {
                write(frame.count, messageSize: frame.count, LaneMemory.Kind.message, &state) { start in
                    frame.withUnsafeBytes { bytes in
                        if let source = bytes.baseAddress { start.copyMemory(from: source, byteCount: bytes.count) }
                    }
                }
            } else {
                writeLarge(frame, &state)
            }
        message = .frame(frame)
        switch outcome {
        case .sent:
            state.queue.noteSent(0)
            if let text { logSent(text) }
            return true
        case .full:
            state.queue.isFull = true
            return false
        case .ended:
            loseLane(&state)
            return false
        }
    }

    /// Sends a frame that is too large for the ring in memory of its own. The memory is with the receiver's process before
    /// the record is.
    private func writeLarge(_ frame: borrowing ZeroMQFrame, _ state: inout ChannelState) -> LaneOutcome {
        let size = frame.count
        guard state.lane.sender?.reserve(Large.recordSize, messageSize: size) != nil,
            state.lane.sender?.mayHandOver() == true
        else { return state.lane.sender?.isEnded == true ? .ended : .full }
        state.lane.waitsForConnection = true
        guard let owner = channels.control.existing(id.incarnation), owner.hasRoom else { return .full }
        guard let memory = Large.make(frame) else {
            // A limit on the size of files, or a filter of system calls, does not pass.
            if [EFBIG, ENOSYS, EPERM, EACCES].contains(errno), closeDrainedLane(&state) { state.lane.refuse() }
            return .full
        }
        let number = state.lane.nextMemory()
        guard owner.sendAtOnce(.memory(id.number, number: number), [memory]) else { return .full }
        state.lane.waitsForConnection = false
        state.lane.sender?.noteHandOver()
        return write(Large.recordSize, messageSize: size, LaneMemory.Kind.large, &state) { start in
            Large.write(number, size, to: start)
        }
    }

    /// Closes a lane from which everything was taken. The owner is told under the lock, and so before the next question.
    /// - Returns: Whether the lane is closed.
    func closeDrainedLane(_ state: inout ChannelState) -> Bool {
        guard state.lane.isDrained(), state.lane.close() else { return false }
        state.queue.closeLane()
        channels.control.send(.laneClosed(id.number, question: state.lane.question), to: id.incarnation)
        return true
    }

    /// The receiver has ended the lane. The message was not sent, and nothing is lost. The next send connects again.
    private func loseLane(_ state: inout ChannelState) {
        if state.lane.close() { state.queue.closeLane() }
    }

    // MARK: Connecting

    /// Asks the owner for a lane, if both sides can map one.
    /// - Parameter blocks: Whether the calling thread waits for the answer.
    /// - Returns: False when the channel has to send by ZeroMQ.
    func askForLane(_ owner: ControlConnection, blocks: Bool) -> Bool {
        guard channels.control.takesLanes, owner.takesLanes, !blocks || mayAwaitLane else { return false }
        let (isAsked, question) = state.withLock { state -> (Bool, UInt64?) in
            if state.lane.isRefused { return (false, nil) }
            guard state.queue.lifecycle == .unconnected else { return (true, nil) }
            state.queue.connect(origin: owner.ownOrigin)
            return (true, state.lane.ask())
        }
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
        guard state.lane.isAsked, !mayAwaitLane, state.lane.giveUpAsking() else { return false }
        state.queue.closeLane()
        return true
    }

    /// The owner has made a lane.
    func laneCame(_ descriptors: [OwnedDescriptor], _ question: UInt64) {
        var made: LaneSender?
        if descriptors.count == 2, let memory = LaneMemory(descriptors[0].number) {
            made = LaneSender(
                memory, LaneBell(descriptors[1]), queueLimit: Int(right.queueLimit), byteLimit: right.byteLimit)
        }
        let (isUsed, waiter) = state.withLock { state -> (Bool, (any Waiter)?) in
            guard state.lane.giveUpAsking(question), state.queue.lifecycle == .connecting else { return (false, nil) }
            if let made = made.take() {
                state.lane.open(made)
                state.queue.connectLane()
                return (true, state.queue.waiters.first)
            }
            state.lane.refuse()
            state.queue.closeLane()
            return (false, state.queue.waiters.first)
        }
        if isUsed {
            log.debug("opened a lane to \(identity)")
            channels.connections.opened(self)
        } else {
            channels.control.send(.laneClosed(id.number, question: question), to: id.incarnation)
        }
        waiter?.wake()
    }

    /// The owner makes no lane.
    func laneWasRefused(_ question: UInt64) {
        let waiter = state.withLock { state -> (any Waiter)? in
            guard state.lane.giveUpAsking(question) else { return nil }
            state.lane.refuse()
            state.queue.closeLane()
            return state.queue.waiters.first
        }
        waiter?.wake()
    }

    /// Gives the memory of a peak back, when nothing waits.
    private func trimLater(_ state: inout ChannelState) {
        if exchange(&state.lane.isTrimming, with: true) { return }
        channels.housekeeping.perform(after: .seconds(1)) { [weak self] in self?.trim() }
    }

    private func trim() {
        state.withLock { state in
            state.lane.isTrimming = false
            if !state.lane.trim() { trimLater(&state) }
        }
    }
}
