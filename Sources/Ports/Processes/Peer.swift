import CRunLoopShims
import DequeModule
import Glibc
import RunLoops
import Synchronization

/// Another process, at the other end of a control connection. The end of the connection does not prove the end of the
/// process: a live one may have cut it off.
final class Peer: Sendable {
    let incarnation: Incarnation
    let pid: pid_t
    let descriptor: Int32
    /// What the peer calls this process.
    let ownOrigin: UInt32

    private struct State {
        /// What the socket had no room for.
        var outbox: Deque<ControlMessage> = []
        /// Ports of ours that it wants to know the end of.
        var watched: Set<UInt64> = []
        /// Ports of its that we have asked it to tell us the end of.
        var asked: Set<UInt64> = []
        /// How many of its questions for statistics are not answered yet.
        var askCount = 0
        var flush: (source: ThreadRunLoop.Source1, descriptor: Int32)?
        /// Whether no descriptor was left to wait with.
        var looksAgain = false
        var isClosed = false
    }

    private let state = Mutex(State())

    /// So many notices wait for a peer that does not read; then it is given up.
    private static let longestOutbox = 65_536

    /// So many of its questions for statistics are being looked into; those beyond get no answer.
    private static let mostAsks = 256

    /// Takes the descriptor over.
    init(_ descriptor: Int32, incarnation: Incarnation, pid: pid_t, ownOrigin: UInt32 = 0) {
        self.descriptor = descriptor
        self.incarnation = incarnation
        self.pid = pid
        self.ownOrigin = ownOrigin
    }

    deinit {
        // A fork has closed it already.
        guard !crl_is_forked() else { return }
        crl_unforked_close(descriptor)
    }

    // MARK: Telling it

    func send(_ message: ControlMessage) {
        let isOverrun = state.withLock { state in
            if case .watch(let number) = message, !state.asked.insert(number).inserted { return false }
            guard !state.isClosed else { return false }
            if state.outbox.isEmpty, write(message) { return false }
            // Whoever does not read is not asked how many messages it has sent: others may want to know without end.
            if case .count = message { return false }
            // Questions do not count: they are as many as the rights of this process.
            guard state.outbox.count < Self.longestOutbox + state.asked.count else { return true }
            state.outbox.append(message)
            if state.flush == nil { startFlushing(&state) }
            return false
        }
        if isOverrun { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    /// True when it was sent, or can never be.
    private func write(_ message: ControlMessage) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize, alignment: 8) { buffer in
            let size = message.write(to: buffer)
            while Glibc.send(descriptor, buffer.baseAddress, size, Int32(MSG_NOSIGNAL)) < 0 {
                if errno == EINTR { continue }
                return errno != EAGAIN && errno != ENOBUFS
            }
            return true
        }
    }

    private func startFlushing(_ state: inout State) {
        // The loop watches the connection already, for what it brings. A duplicate that the loop makes would stay open in
        // a forked child, and the peer take us for alive as long as that lives.
        let copy = crl_unforked_duplicate(descriptor)
        guard copy >= 0 else { return lookAgain(&state) }
        let source = ThreadRunLoop.Source1(descriptor: copy, interest: .writable, duplicates: false) { [weak self] _ in
            self?.flush()
            return true
        }
        guard let loop = try? PortProcess.current.housekeepingLoop(), (try? loop.add(source)) != nil else {
            crl_unforked_close(copy)
            return lookAgain(&state)
        }
        state.flush = (source, copy)
    }

    /// Without a descriptor to wait with, the housekeeping thread looks now and then.
    private func lookAgain(_ state: inout State) {
        guard !state.looksAgain, let loop = try? PortProcess.current.housekeepingLoop() else { return }
        state.looksAgain = true
        loop.add(ThreadRunLoop.Timer(after: .milliseconds(10)) { [weak self] _ in self?.flush() })
    }

    private func stopFlushing(_ state: inout State) {
        guard let (source, copy) = state.flush else { return }
        state.flush = nil
        source.invalidate()
        crl_unforked_close(copy)
    }

    private func flush() {
        state.withLock { state in
            state.looksAgain = false
            while let next = state.outbox.first, write(next) { state.outbox.removeFirst() }
            if state.outbox.isEmpty { stopFlushing(&state) } else if state.flush == nil { startFlushing(&state) }
        }
    }

    /// Whether it may have sent something to a port of ours: nobody does before it has asked for news of its end.
    func watches(_ number: UInt64) -> Bool { state.withLock { $0.watched.contains(number) } }

    /// A port of ours is invalid.
    func tellInvalidated(_ number: UInt64) {
        if state.withLock({ $0.watched.remove(number) }) != nil { send(.invalidated(number)) }
    }

    // MARK: Hearing it

    /// So many packets are read before other connections get their turn.
    private static let batch = 64

    /// Reads some of what has come. False at the end of the connection, or when the peer does not keep to the protocol.
    func receive() -> Bool {
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 8) { buffer in
            for _ in 0..<Self.batch {
                let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
                if count < 0, errno == EINTR { continue }
                if count < 0, errno == EAGAIN { return true }
                guard count > 0, let message = ControlMessage(UnsafeRawBufferPointer(rebasing: buffer[..<count])) else {
                    if count > 0 {
                        log.warning(
                            about: .process(pid), once: "malformed",
                            "process \(pid) has sent a malformed control message; it is cut off")
                    }
                    return false
                }
                handle(message)
            }
            return true
        }
    }

    private func handle(_ message: ControlMessage) {
        let process = PortProcess.current
        switch message {
        case .watch(let number):
            state.withLock { _ = $0.watched.insert(number) }
            // The port may have gone while the question was on its way, or before.
            if process.port(number)?.isValid != true { tellInvalidated(number) }
        case .invalidated(let number):
            state.withLock { _ = $0.asked.remove(number) }
            channel(number)?.invalidate()
        case .unanswered(let request):
            process.replies.wasRefused(request, by: incarnation)
        case .taken(let number, let bytes):
            channel(number)?.taken(bytes: Int(clamping: bytes))
        case .drained(let number, let question):
            channel(number)?.drained(question)
        case .count(let number):
            send(.sent(number, count: UInt64(channel(number)?.sentCount ?? 0)))
        case .sent(let number, let count):
            process.sentCounts.sent(Int(clamping: count), to: number, by: incarnation)
        case .ask(let query, let number):
            let isOneTooMany = state.withLock { state in
                if state.askCount < Self.mostAsks { state.askCount += 1 } else { return true }
                return false
            }
            guard !isOneTooMany else { return }
            process.sentCounts.collect(for: number) { [weak self] statistics in
                guard let self else { return }
                state.withLock { $0.askCount -= 1 }
                guard let statistics else { return }
                send(
                    .statistics(
                        query: query, received: UInt64(statistics.received), waiting: UInt64(statistics.waiting)))
            }
        case .statistics(let query, let received, let waiting):
            process.sentCounts.answered(
                query, .init(received: Int(clamping: received), waiting: Int(clamping: waiting)), by: incarnation)
        }
    }

    private func channel(_ number: UInt64) -> SendChannel? {
        PortProcess.current.existingChannel(to: PortID(incarnation: incarnation, number: number))
    }

    /// The connection has ended.
    func closed() {
        state.withLock { state in
            state.isClosed = true
            state.outbox = []
            stopFlushing(&state)
        }
    }
}
