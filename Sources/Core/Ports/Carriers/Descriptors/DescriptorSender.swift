import DequeModule
import Glibc

/// The sender's end of the way for descriptors to a port of another process, from the question to the owner on. The
/// channel's lock guards the value.
struct DescriptorSender: ~Copyable {
    /// The reason why the last message with descriptors has to wait.
    enum Obstacle {
        case none
        /// The owner has not answered the question for a socket.
        case answer
        /// The port has to take descriptors first.
        case budget
        /// The kernel, or the control connection, does not report when it has room.
        case silent
    }

    private var socket: DescriptorSocket?
    /// The number of the last question, which nobody else can guess, and which names the socket in messages.
    private(set) var question: UInt64 = 0
    private(set) var isAsked = false
    private var isRefused = false
    var obstacle = Obstacle.none
    private var lastNumber: UInt64 = 0
    /// The messages that the port has not taken: the number of the packet, and of its descriptors.
    private var inFlight: Deque<(number: UInt64, count: Int)> = []
    /// The descriptors of those messages.
    private var countInFlight = 0

    /// The most descriptors in flight, because each counts against a limit of the user's.
    static let most = 128

    var isOpen: Bool { socket != nil }
    /// Readable when the port has taken descriptors.
    var descriptor: Int32? { socket?.descriptor }

    // MARK: Connecting

    mutating func ask() -> UInt64 {
        (isAsked, question) = (true, .random(in: 1 ... .max))
        return question
    }

    mutating func giveUpAsking() { isAsked = false }

    /// The owner has answered the question.
    /// - Parameter socket: Nil when the owner makes none.
    /// - Returns: Whether the answer was awaited.
    mutating func answer(_ question: UInt64, with socket: DescriptorSocket?) -> Bool {
        guard isAsked, question == self.question else { return false }
        self.socket = socket
        (isAsked, isRefused, lastNumber) = (false, socket == nil, 0)
        return true
    }

    /// Whether the owner has refused the question. The next message asks again.
    mutating func takeRefusal() -> Bool { exchange(&isRefused, with: false) }

    /// Closes the socket. The port closes its end when it is told so, or after the end of this process.
    mutating func close() {
        socket = nil
        forgetInFlight()
    }

    /// Whether nothing is in flight on an open socket.
    mutating func isUnused() -> Bool {
        readReports()
        return isOpen && inFlight.isEmpty
    }

    // MARK: Sending

    /// Whether descriptors can go now, as far as this process knows.
    mutating func hasRoom(for count: Int) -> Bool {
        if isOverBudget(count) { readReports() }
        return isOpen && !isOverBudget(count)
    }

    /// Sends the descriptors of a message ahead of it, and writes into the message which packet has them.
    /// - Returns: False when the message has to wait, for ``obstacle``.
    mutating func send(
        _ descriptors: [MessageDescriptor], aheadOf frame: inout Frame
    ) throws(PortError) -> Bool {
        guard let socket else { return false }
        // The carrier did not take the message that the last packet belongs to.
        if frame.descriptorToken == .init(socket: question, packet: lastNumber) { return true }
        if isOverBudget(descriptors.count) { readReports() }
        if isOverBudget(descriptors.count) {
            if !socket.hasHungUp { return fail(.budget) }
            close()
            return fail(.silent)
        }
        var numbers: [Int32] = []
        for descriptor in descriptors { numbers.append(try descriptor.number) }
        switch socket.send(lastNumber + 1, numbers) {
        case 0: break
        case EAGAIN:
            readReports()
            // Nothing but packets without messages is on the way, and nothing would take them.
            if inFlight.isEmpty { close() }
            return fail(.silent)
        case ENOBUFS, ENOMEM, ETOOMANYREFS: return fail(.silent)
        case EPIPE, ECONNRESET, ENOTCONN:
            close()
            return fail(.silent)
        case let error: throw .transport(call: "sendmsg", errno: error)
        }
        lastNumber += 1
        frame.setDescriptorToken(.init(socket: question, packet: lastNumber))
        return true
    }

    /// The carrier has taken the message that the last packet belongs to.
    mutating func noteSent(_ count: Int) {
        inFlight.append((lastNumber, count))
        countInFlight += count
    }

    /// A message of any number may go alone.
    private func isOverBudget(_ count: Int) -> Bool { countInFlight > 0 && countInFlight + count > Self.most }

    private mutating func fail(_ obstacle: Obstacle) -> Bool {
        self.obstacle = obstacle
        return false
    }

    /// Believes nothing that cannot be.
    private mutating func readReports() {
        guard let last = socket?.lastReport() else { return }
        while let first = inFlight.first, first.number <= last {
            inFlight.removeFirst()
            countInFlight -= first.count
        }
    }

    /// The messages on their way are lost, and nothing reports them as taken.
    mutating func forgetInFlight() {
        inFlight = []
        countInFlight = 0
    }
}
