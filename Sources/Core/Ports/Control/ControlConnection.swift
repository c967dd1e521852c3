import DequeModule
import Glibc
import RunLoopLocks
import RunLoops

/// A control connection to another process. Its end does not prove the end of the process, which may have cut the
/// connection.
final class ControlConnection: Sendable {
    let incarnation: Incarnation
    let owner: ProcessIdentity
    var pid: pid_t { owner.pid }
    let socket: ControlSocket
    /// The number that the peer has given this process, for frames to the peer.
    let ownOrigin: UInt32
    /// Whether the peer can map rings.
    let takesRings: Bool
    /// Whether messages to the peer may have descriptors.
    let takesDescriptors: Bool
    private let takesReasons: Bool

    private let control: ControlConnectionTable
    let process: KnownProcess
    /// Where the peer listens.
    private struct Place {
        /// Whether the directory in which the peer has listened is still there; nil until that directory is known.
        var isThere: (@Sendable () -> Bool)?
    }

    // A closure that was a lock's whole value would get another wrapper with each look at it.
    private let place = Lock(Place())

    /// Notes where the peer listens. It may do so only later than it connects.
    func notePlace() {
        guard place.withLock({ $0.isThere == nil }), let found = control.events?.place(of: incarnation) else { return }
        place.withLock { $0.isThere = found }
    }

    /// The peer, after the end of this connection.
    var former: FormerPeer { FormerPeer(process: process, hasPlace: place.withLock { $0.isThere }) }

    private struct State {
        /// Packets that the socket had no room for.
        var outbox: Deque<ControlMessage> = []
        /// Ports of this runtime that the peer watches.
        var watched: Set<UInt64> = []
        /// Ports of the peer that this runtime watches.
        var asked: Set<UInt64> = []
        var flush: ThreadRunLoop.Source1?
        /// Whether a timer polls, because no descriptor was left to wait with.
        var polls = false
        var isClosed = false
    }

    private let state = Lock(State())

    init(_ socket: ControlSocket, _ hello: ControlHello, _ pid: pid_t, _ control: ControlConnectionTable) {
        self.socket = socket
        owner = ProcessIdentity(pid: pid)
        self.control = control
        incarnation = hello.incarnation
        process = KnownProcess(pid)
        ownOrigin = hello.origin
        takesRings = hello.takesRings
        takesDescriptors = hello.takesDescriptors
        takesReasons = hello.takesReasons
    }

    /// The peer, as the log names it.
    var text: String { "\(owner), which is \(incarnation.shortDescription)" }

    private enum Sending { case done, leftOut, late }

    /// - Returns: False when the message was left out, because the peer does not read.
    @discardableResult
    func send(_ message: ControlMessage) -> Bool {
        if case .failed(let request, _) = message, !takesReasons { return send(.unanswered(request)) }
        let sending: Sending = state.withLock { state in
            if case .watch(let number) = message, !state.asked.insert(number).inserted { return .done }
            if state.isClosed { return .late }
            if state.outbox.isEmpty, socket.send(message) { return .done }
            // Skip queries for a peer with a full socket, because unanswered queries would accumulate without bound. A
            // name only makes texts clearer, and is no reason to cut the peer off.
            switch message {
            case .count, .named: return .leftOut
            case .question where state.outbox.count >= 64: return .leftOut
            default: break
            }
            // A stopped peer is not cut off for a cancellation, because a lost one only costs the server needless
            // work.
            if case .cancelled = message, state.outbox.count >= 1024 { return .leftOut }
            // A peer that does not read is cut off. Watches always have room, because the rights of this process bound
            // their number.
            let hasRoom = control.waitingPackets.load(ordering: .relaxed) < ControlConnectionTable.manyPackets
            if state.outbox.count < (hasRoom ? 65_536 : 1024) + state.asked.count {
                state.outbox.append(message)
                control.waitingPackets.add(1, ordering: .relaxed)
                if state.flush == nil { startFlushing(&state) }
            } else {
                log.debug("cutting off the connection to \(text), which does not read")
                cut()
            }
            return .done
        }
        if sending == .late { control.sendAgain([message], to: incarnation) }
        return sending != .leftOut
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }
    /// Whether no packet waits for room.
    var hasRoom: Bool { state.withLock { !$0.isClosed && $0.outbox.isEmpty } }

    /// Sends a packet that must be with the kernel before the caller goes on, such as one with descriptors.
    /// - Returns: False when the socket has no room now.
    func sendAtOnce(_ message: ControlMessage, _ descriptors: [OwnedDescriptor]) -> Bool {
        state.withLock { !$0.isClosed && $0.outbox.isEmpty && socket.send(message, descriptors) }
    }

    private func startFlushing(_ state: inout State) {
        // The loop already watches the descriptor for reading, so writing needs a duplicate. A duplicate made by the
        // loop would stay open in a forked child, and a dead parent would seem alive.
        if let copy = socket.duplicate() {
            let source = ThreadRunLoop.Source1(
                descriptor: copy.descriptor, interest: .writable, duplicates: false
            ) { [weak self] _ in
                self?.flush()
                return withExtendedLifetime(copy) { true }
            }
            if (try? control.housekeeping.add(source)) != nil { return state.flush = source }
        }
        flushSoon(&state)
    }

    private func flushSoon(_ state: inout State) {
        if exchange(&state.polls, with: true) { return }
        control.housekeeping.perform(after: .milliseconds(10)) { [weak self] in self?.flush() }
    }

    private func flush() {
        state.withLock { state in
            state.polls = false
            while let next = state.outbox.first, socket.send(next) {
                state.outbox.removeFirst()
                control.waitingPackets.subtract(1, ordering: .relaxed)
            }
            // After the end of the connection, the other packets stay for the next connection.
            let error = errno
            let isOver = state.outbox.isEmpty || ![EAGAIN, ENOBUFS, ENOMEM].contains(error)
            if isOver || error != EAGAIN { state.flush.take()?.invalidate() }
            if isOver { return }
            // A socket that is writable would begin the next attempt at once.
            if error != EAGAIN { flushSoon(&state) } else if state.flush == nil { startFlushing(&state) }
        }
    }

    /// Whether the peer may have sent messages to the port. A process watches a port before it sends to it.
    func watches(_ number: UInt64) -> Bool { state.withLock { $0.watched.contains(number) } }

    var watchedPorts: Set<UInt64> { state.withLock { $0.watched } }

    func tellInvalidated(_ number: UInt64) {
        if state.withLock({ $0.watched.remove(number) }) != nil { send(.invalidated(number)) }
    }

    /// Tells the peer the name of a port that it watches.
    func tell(_ name: String, of number: UInt64) { send(.named(number, name)) }

    /// Reads a bounded number of packets.
    /// - Returns: False at the end of the connection, or after a malformed packet.
    func receive() -> Bool {
        withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize + 1, alignment: 8) { buffer in
            for _ in 0..<64 {
                var descriptors: [OwnedDescriptor] = []
                guard let packet = socket.receive(into: buffer, &descriptors) else { return errno == EAGAIN }
                guard let message = ControlMessage(packet) else {
                    log.warning(
                        about: .process(pid), once: "malformed",
                        "cut the connection to \(owner): it sent a malformed control message")
                    return false
                }
                handle(message, descriptors)
            }
            return true
        }
    }

    private func handle(_ message: ControlMessage, _ descriptors: [OwnedDescriptor]) {
        switch message {
        case .watch(let number): _ = state.withLock { $0.watched.insert(number) }
        case .invalidated(let number): _ = state.withLock { $0.asked.remove(number) }
        default: break
        }
        control.events?.received(message, descriptors, from: self)
    }

    /// - Returns: The packets that were not sent.
    @discardableResult
    func closed() -> Deque<ControlMessage> {
        state.withLock { state in
            state.isClosed = true
            control.waitingPackets.subtract(state.outbox.count, ordering: .relaxed)
            state.flush.take()?.invalidate()
            return exchange(&state.outbox, with: [])
        }
    }

    func cut() { socket.cut() }
}
