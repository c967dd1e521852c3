/// A channel's lane, from the question to the owner on. The channel's lock guards it.
struct LaneConnection: ~Copyable {
    var sender: LaneSender?
    /// Whether the owner was asked for a lane and has not answered.
    private(set) var isAsked = false
    /// The number of the last question.
    private(set) var question: UInt64 = 0
    /// Whether the last message had no room at the control connection, which does not report room.
    var waitsForConnection = false
    /// Whether the owner makes no lane, or this process cannot map one.
    private(set) var isRefused = false
    /// Whether the other end of the bell is closed. Then the end of the port or of its process is about to be reported.
    private var hasHungUp = false
    /// Whether the housekeeping thread will give memory back.
    var isTrimming = false
    private var lastMemory: UInt64 = 0

    var isOpen: Bool { sender != nil }

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

    mutating func open(_ made: consuming LaneSender) {
        sender = consume made
        (isAsked, hasHungUp) = (false, false)
    }

    /// - Returns: Whether there was a lane.
    mutating func close() -> Bool { sender.take() != nil }

    mutating func askForRoom() {
        if let bell = sender?.bell, !hasHungUp { hasHungUp = !bell.hear() }
        sender?.askForRoom()
    }

    /// The descriptor that reports room; nil when nothing is to come.
    var roomDescriptor: Int32? { mutating get { hasHungUp ? nil : sender?.bell.descriptor } }

    /// Whether all messages were taken.
    mutating func isDrained() -> Bool { sender?.waitingCount() == 0 }

    /// Gives the memory of a peak back.
    /// - Returns: False when the call has to come again.
    mutating func trim() -> Bool { sender?.trim() ?? true }

    mutating func nextMemory() -> UInt64 {
        lastMemory += 1
        return lastMemory
    }
}
