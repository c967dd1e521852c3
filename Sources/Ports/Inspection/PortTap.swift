import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// What those who monitor a port share.
final class PortTap: MessageTap {
    private struct State {
        var monitors: [EventStream] = []
        var lastNumber = 0
        var programs: [pid_t: String?] = [:]
        /// The messages in their handlers.
        var handled: [Int: (message: PortEvent, since: MonotonicInstant)] = [:]
    }

    private let port: Weak<Receiver>
    private let accepted: AcceptedRequests
    private let state = Lock(State())
    /// Whether some monitor has room, so that a flood costs little.
    private let hasRoom = Atomic(true)
    /// The messages that nobody had room for.
    let skippedCount = Atomic(0)

    /// The most monitors of a port.
    private static let most = 16
    /// The most messages of which the tap waits for the handler's return: few threads handle messages at a time.
    private static let mostHandled = 256

    init(_ port: Receiver, _ accepted: AcceptedRequests) {
        (self.port, self.accepted) = (Weak(port), accepted)
    }

    /// - Returns: False when there are too many.
    func add(_ monitor: EventStream) -> Bool {
        let isAdded = state.withLock { state in
            guard state.monitors.count < Self.most else { return false }
            state.monitors.append(monitor)
            return true
        }
        if isAdded { port.object?.setTap(self) }
        roomWasMade()
        return isAdded
    }

    /// - Returns: Whether it was the last.
    func remove(_ monitor: EventStream) -> Bool {
        let isLast = state.withLock { state in
            state.monitors.removeAll { $0 === monitor }
            return state.monitors.isEmpty
        }
        if isLast { port.object?.setTap(nil) }
        return isLast
    }

    /// Events have gone out. The programs are forgotten: a process id may soon be another process's.
    func roomWasMade() {
        state.withLock { $0.programs = [:] }
        hasRoom.store(true, ordering: .relaxed)
    }

    /// Looked up at once: a sender may end soon.
    private func program(of pid: pid_t) -> String? {
        if let known = state.withLock({ $0.programs[pid] }) { return known }
        let program = ProcessStatus.program(of: pid)
        state.withLock { $0.programs[pid] = .some(program) }
        return program
    }

    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int? {
        guard hasRoom.load(ordering: .relaxed) else {
            skippedCount.add(1, ordering: .relaxed)
            return nil
        }
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let (event, since) = (PortEvent(message, number, program: program), MonotonicInstant.now)
        guard tell(event, about: event) else { return nil }
        if event.kind == .request {
            guard let asker = message.replyChannel?.id.incarnation else { return nil }
            accepted.onEnd(.init(asker: asker, number: message.header.request)) { [weak self] isAnswered in
                let kind = isAnswered ? PortEvent.Kind.reply : .unanswered
                self?.tell(PortEvent(event, kind, since), about: event)
            }
            return nil
        }
        return state.withLock { state in
            guard hasHandler, state.handled.count < Self.mostHandled else { return nil }
            state.handled[number] = (event, since)
            return number
        }
    }

    func handled(_ number: Int) {
        guard let (message, since) = state.withLock({ $0.handled.removeValue(forKey: number) }) else { return }
        tell(PortEvent(message, .handled, since), about: message)
    }

    /// - Returns: Whether some monitor wants the message.
    @discardableResult
    private func tell(_ event: PortEvent, about message: PortEvent) -> Bool {
        let monitors = state.withLock { $0.monitors }
        let wanting = monitors.filter { $0.filter.wants(message) }
        // Each is asked: none of them is left out.
        let haveRoom = wanting.map { $0.add(event) }
        if !haveRoom.contains(true), wanting.count == monitors.count { hasRoom.store(false, ordering: .relaxed) }
        return !wanting.isEmpty
    }
}

extension PortEvent {
    private static let mostSizes = 16

    fileprivate init(_ message: ReceivedMessage, _ number: Int, program: (pid_t) -> String?) {
        let header = message.header
        var (sizes, ports): ([Int], Int) = ([], 0)
        // Any number of components may come, and each is found from the first on.
        for index in 0..<min(message.componentCount, Self.mostSizes) {
            var size: Int?
            message.readBytes(ofComponent: index) { size = $0.count }
            if size == nil { ports += 1 }
            sizes.append(size ?? 0)
        }
        let sender = message.sender?.pid ?? 0
        self.init(
            kind: header.kind == .request ? .request : .message, time: Self.now, number: number, id: header.id,
            sizes: sizes, size: message.componentCount > Self.mostSizes ? message.size : sizes.reduce(0, +),
            ports: ports, sender: sender, program: program(sender), duration: nil)
    }

    fileprivate init(_ message: PortEvent, _ kind: Kind, _ since: MonotonicInstant) {
        self.init(
            kind: kind, time: Self.now, number: message.number, id: message.id, sizes: message.sizes,
            size: message.size, ports: message.ports, sender: message.sender, program: message.program,
            duration: since.duration(to: .now))
    }

    private static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
