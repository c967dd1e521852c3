import Glibc

/// A ring to a port of another process, from the question to the owner on. The channel's lock guards the value.
struct RingConnection: ~Copyable {
    private var sender: RingSender?
    /// Whether the owner was asked for a ring and has not answered.
    private(set) var isAsked = false
    /// The number of the last question.
    private(set) var question: UInt64 = 0
    /// Whether the kernel had no room, or no memory, for the last message, and does not report when it has.
    private(set) var waitsForKernel = false
    /// Whether the owner makes no ring, or this process cannot map one.
    private(set) var isRefused = false
    /// Whether the other end of the bell is closed. Then the end of the port or of its process is about to be reported.
    private var hasHungUp = false
    /// Whether ``trim()`` will be called.
    private var isTrimming = false

    var isOpen: Bool { sender != nil }

    // MARK: Connecting

    mutating func ask() -> UInt64 {
        isAsked = true
        question += 1
        return question
    }

    /// - Parameter question: The number of the question; nil for the last one.
    /// - Returns: Whether an answer was awaited.
    mutating func giveUpAsking(_ question: UInt64? = nil) -> Bool {
        guard question == nil || question == self.question else { return false }
        return exchange(&isAsked, with: false)
    }

    mutating func refuse() { (isAsked, isRefused) = (false, true) }

    mutating func open(_ made: consuming RingSender) {
        sender = consume made
        (isAsked, hasHungUp) = (false, false)
    }

    /// - Returns: Whether there was a ring.
    @discardableResult
    mutating func close() -> Bool { sender.take() != nil }

    // MARK: Sending

    enum Outcome {
        case sent
        case full
        /// The receiver has ended the ring. The message was not sent, and nothing is lost.
        case ended
        /// The process may not make memory for a message of this size.
        case forbidden
    }

    /// Sends a frame, in the ring or, when it is too large for that, in memory of its own.
    /// - Parameters:
    ///   - frame: The message.
    ///   - sentCount: The messages that were sent to the port, with this one.
    ///   - housekeeping: Rings later when the kernel has no memory for the signal.
    mutating func send(_ frame: borrowing Frame, sentCount: Int, _ housekeeping: Housekeeping) -> Outcome {
        waitsForKernel = false
        let count = frame.count
        guard count > sender?.largestRecord ?? 0 else {
            return write(count, sentCount: sentCount, housekeeping) { start in
                frame.withUnsafeBytes { bytes in
                    if let source = bytes.baseAddress { start.copyMemory(from: source, byteCount: bytes.count) }
                }
            }
        }
        if let obstacle = obstacle(to: count) { return obstacle }
        waitsForKernel = true
        guard let memory = LargeRecord.make(frame) else {
            // A limit on the size of files, or a filter of system calls, does not pass.
            return [EFBIG, ENOSYS, EPERM, EACCES].contains(errno) ? .forbidden : .full
        }
        // The memory is with the receiver before the record is.
        guard sender?.bell.send(memory) == true else { return noRoom }
        waitsForKernel = false
        sender?.noteHandOver()
        return write(
            LargeRecord.recordSize, RingMemory.Kind.large, messageSize: count, sentCount: sentCount, housekeeping
        ) {
            LargeRecord.write(count, to: $0)
        }
    }

    /// Writes a record, and rings the bell if the receiver sleeps.
    /// - Parameters:
    ///   - count: The record's size, in bytes.
    ///   - body: Writes the record's bytes.
    @inline(__always)
    mutating func write(
        _ count: Int, _ kind: UInt32 = RingMemory.Kind.message, messageSize: Int? = nil, sentCount: Int,
        _ housekeeping: Housekeeping, _ body: (UnsafeMutableRawPointer) -> Void
    ) -> Outcome {
        let messageSize = messageSize ?? count
        guard count <= sender?.largestRecord ?? 0, let start = sender?.reserve(count, messageSize: messageSize) else {
            return noRoom
        }
        body(start)
        switch sender?.publish(count, kind: kind, messageSize: messageSize, sentCount: sentCount) {
        case .queued?: return .sent
        case .opened?:
            sender?.bell.ring(orLaterOn: housekeeping)
            return .sent
        case .ended?, nil: return .ended
        }
    }

    /// The outcome of sending a frame of this size now; nil when there is room, which stays until a frame is sent.
    mutating func obstacle(to count: Int) -> Outcome? {
        let isLarge = count > sender?.largestRecord ?? 0
        let isRoom =
            sender?.reserve(isLarge ? LargeRecord.recordSize : count, messageSize: count) != nil
            // With the bell closed, the end of the port, or of its process, is about to be told.
            && (!isLarge || !hasHungUp && sender?.mayHandOver() == true)
        return isRoom ? nil : noRoom
    }

    private var noRoom: Outcome { mutating get { sender?.isEnded == true ? .ended : .full } }

    /// The sender's end of the bell.
    var bell: Bell? { mutating get { sender?.bell } }

    mutating func askForRoom() {
        if let bell, !hasHungUp { hasHungUp = !bell.hear() }
        sender?.askForRoom()
    }

    /// The descriptor that reports room; nil when nothing is to come.
    var roomDescriptor: Int32? { mutating get { hasHungUp ? nil : bell?.descriptor } }

    /// Whether all messages were taken.
    mutating func isDrained() -> Bool { sender?.waitingCount() == 0 }

    // MARK: Memory

    /// - Returns: Whether ``trim()`` has to be called later, because the ring has grown.
    @inline(__always)
    mutating func startsTrimming() -> Bool {
        guard sender?.populated ?? 0 > RingSender.soft, !isTrimming else { return false }
        isTrimming = true
        return true
    }

    /// Gives the memory of a peak back.
    /// - Returns: False when the call has to come again.
    mutating func trim() -> Bool {
        isTrimming = sender?.trim() == false
        return !isTrimming
    }
}
