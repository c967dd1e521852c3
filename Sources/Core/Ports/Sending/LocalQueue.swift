import RunLoopLocks
import RunLoops
import Synchronization

/// The messages that senders of a port's own runtime have sent, and that the port has not taken: a list without a lock.
///
/// The list is *open* while the port's takers look at it, and *closed* when the port has nothing left and its takers
/// sleep. The sender that finds the list closed opens it, and rings the bell: it sends one ZeroMQ message, which wakes
/// the takers. Messages to an open list cost no system call. <doc:BetweenThreads> argues why no message waits unseen.
final class LocalQueue: Sendable {
    /// The fields that all senders write.
    private struct Front: ~Copyable {
        /// The address of the newest message, and ``closed`` and ``refusing`` in the low bits.
        let newest = Atomic(LocalQueue.closed | LocalQueue.refusing)
        let admittedCount = Atomic(0)
        /// An earlier ``takenCount``, to leave the takers' cache line alone while there is room.
        let knownTakenCount = Atomic(0)
    }

    /// No taker looks at the list, which is empty: the next sender rings the bell.
    private static let closed: UInt = 1
    /// The list accepts nothing: the bell is not there yet, or the port is invalid.
    private static let refusing: UInt = 2
    private static let flags = closed | refusing

    private let front = CacheLine(Front())
    private let takenCount = CacheLine(Atomic(0))
    private let hasWaiters = Atomic(false)
    private let wantsRoom = Atomic(false)
    /// The messages that were counted in again, or that came with the port from another process.
    private let readmittedCount = Atomic(0)
    private let limit: Int
    let pool = MessagePool()

    init(limit: Int) { self.limit = limit }

    deinit { _ = takeAll() }

    // MARK: Senders

    enum Outcome {
        case queued
        /// The sender has opened the list, and has to ring the bell.
        case opened
        /// There is no room.
        case full
        /// The list accepts nothing.
        case refused
    }

    /// Whether senders wait for room. Then new senders take the channel's lock, to keep the order.
    var isHeld: Bool { hasWaiters.load(ordering: .relaxed) }

    func hold(_ isHeld: Bool) { hasWaiters.store(isHeld, ordering: .relaxed) }

    /// Sends a message of one component of bytes, which are copied.
    ///
    /// - Returns: Also full when other senders wait.
    func send(id: UInt32, bytes: RawSpan, replyRight: SendChannel?, size: UInt32) -> Outcome {
        guard !isHeld, admit() else { return .full }
        let made = LocalMessage.makeRetained(id: id, bytes: bytes, replyRight: replyRight, size: size, from: pool)
        return add(UInt(bitPattern: made))
    }

    func push(_ message: LocalMessage) -> Outcome { admit() ? add(message.retained()) : .full }

    /// Puts the message at an address on the list. The message is counted in.
    private func add(_ message: UInt) -> Outcome {
        var newest = front.value.newest.load(ordering: .relaxed)
        while newest & Self.refusing == 0 {
            LocalMessage.setLink(of: message, to: newest & ~Self.flags)
            let (isDone, found) = front.value.newest.weakCompareExchange(
                expected: newest, desired: message, ordering: .acquiringAndReleasing)
            if isDone { return newest & Self.closed == 0 ? .queued : .opened }
            newest = found
        }
        _ = LocalMessage(released: message)
        front.value.admittedCount.subtract(1, ordering: .relaxed)
        return .refused
    }

    /// Counts a message in, unless the queue is full.
    @inline(__always)
    private func admit() -> Bool {
        var admitted = front.value.admittedCount.load(ordering: .relaxed)
        while true {
            if admitted - front.value.knownTakenCount.load(ordering: .relaxed) >= limit {
                let taken = takenCount.value.load(ordering: .sequentiallyConsistent)
                front.value.knownTakenCount.store(taken, ordering: .relaxed)
                if admitted - taken >= limit { return false }
            }
            let (isDone, found) = front.value.admittedCount.weakCompareExchange(
                expected: admitted, desired: admitted + 1, ordering: .relaxed)
            if isDone { return true }
            admitted = found
        }
    }

    /// Asks the takers to report room. A sender asks before its last attempt.
    func askForRoom() { wantsRoom.store(true, ordering: .sequentiallyConsistent) }

    /// Whether another message fits. A sender that has asked for room before, and finds none, is woken later.
    var hasRoom: Bool { admittedCount - takenCount.value.load(ordering: .sequentiallyConsistent) < limit }

    private var admittedCount: Int { front.value.admittedCount.load(ordering: .relaxed) }

    /// The messages that were sent.
    var sentCount: Int { admittedCount - readmittedCount.load(ordering: .relaxed) }

    /// Counts messages in that takers put back, or that came with the port from another process.
    func readmit(_ count: Int) {
        readmittedCount.add(count, ordering: .relaxed)
        front.value.admittedCount.add(count, ordering: .relaxed)
    }

    /// Whether no message waits.
    var isEmpty: Bool { admittedCount == takenCount.value.load(ordering: .relaxed) }

    /// Whether messages are on the list.
    var hasMessages: Bool { front.value.newest.load(ordering: .relaxed) & ~Self.flags != 0 }

    /// Accepts messages: there is a bell.
    func open() { front.value.newest.bitwiseAnd(~Self.refusing, ordering: .releasing) }

    /// Accepts no more messages. Messages in the list stay there for the takers.
    func refuse() { front.value.newest.bitwiseOr(Self.refusing, ordering: .acquiringAndReleasing) }

    // MARK: Takers, one at a time

    /// A chain of messages.
    struct Batch: ~Copyable {
        /// The first message's address.
        private var first: UInt
        /// The address of the message that was put in front first, and so is the last.
        private var last: UInt = 0

        init(first: UInt = 0) { self.first = first }

        /// Puts a message in front.
        mutating func prepend(_ message: consuming LocalMessage) {
            let message = message.retained()
            LocalMessage.setLink(of: message, to: first)
            first = message
            if last == 0 { last = first }
        }

        /// Moves the messages, which were put in one by one, to the front of a shared chain.
        mutating func move(to shared: borrowing Atomic<UInt>) {
            guard last != 0 else { return }
            var next = shared.load(ordering: .relaxed)
            while true {
                LocalMessage.setLink(of: last, to: next)
                let (isDone, found) = shared.weakCompareExchange(expected: next, desired: first, ordering: .releasing)
                if isDone { break }
                next = found
            }
            (first, last) = (0, 0)
        }

        var isEmpty: Bool { first == 0 }

        mutating func popFirst() -> LocalMessage? { Self.popFirst(&first) }

        private static func popFirst(_ first: inout UInt) -> LocalMessage? {
            let message = first
            first = LocalMessage.link(of: message)
            return LocalMessage(released: message)
        }

        deinit {
            var rest = first
            while Self.popFirst(&rest) != nil {}
        }
    }

    /// Takes all messages off the list, which stays open.
    func takeAll() -> Batch {
        var newest = front.value.newest.load(ordering: .relaxed)
        while newest & ~Self.flags != 0 {
            let (isDone, found) = front.value.newest.weakCompareExchange(
                expected: newest, desired: newest & Self.refusing, ordering: .acquiring)
            if isDone { return Batch(first: Self.reversed(newest & ~Self.flags)) }
            newest = found
        }
        return Batch()
    }

    private static func reversed(_ newest: UInt) -> UInt {
        var (oldest, rest) = (0 as UInt, newest)
        while rest != 0 {
            let next = LocalMessage.link(of: rest)
            LocalMessage.setLink(of: rest, to: oldest)
            oldest = rest
            rest = next
        }
        return oldest
    }

    /// Closes the list, unless it has messages.
    ///
    /// - Returns: Whether the list is closed.
    func close() -> Bool {
        var newest = front.value.newest.load(ordering: .relaxed)
        while newest & ~Self.flags == 0 {
            if newest & Self.closed != 0 { return true }
            let (isDone, found) = front.value.newest.weakCompareExchange(
                expected: newest, desired: newest | Self.closed, ordering: .acquiringAndReleasing)
            if isDone { return true }
            newest = found
        }
        return false
    }

    /// Keeps messages that handlers are done with for the senders, or few of them when nothing is on the list.
    func reuse(_ used: inout Batch) {
        pool.give(&used)
        if front.value.newest.load(ordering: .relaxed) & Self.closed != 0 { pool.trim() }
    }

    /// Counts a message out.
    ///
    /// - Returns: Whether the senders that wait for room have to be woken. As with a socket, that is when half of the
    ///   queue is free.
    func noteTaken() -> Bool {
        let taken = takenCount.value.load(ordering: .relaxed) + 1
        takenCount.value.store(taken, ordering: .sequentiallyConsistent)
        guard wantsRoom.load(ordering: .sequentiallyConsistent), admittedCount - taken <= limit / 2 else {
            return false
        }
        return wantsRoom.exchange(false, ordering: .sequentiallyConsistent)
    }
}
