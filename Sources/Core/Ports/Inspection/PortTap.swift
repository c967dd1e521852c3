import Glibc
import RunLoopLocks
import RunLoops

/// Sees the messages of a port for all of its monitors.
final class PortTap: MessageTap {
    private struct State {
        var monitors: [EventStream] = []
        var lastNumber = 0
        var programs: [pid_t: String?] = [:]
        var programsEnd = MonotonicInstant.distantPast
        /// The messages in their handlers.
        var handled: [Int: (message: PortEvent, since: MonotonicInstant)] = [:]
    }

    private let port: Weak<Receiver>
    private let requests: (any TakenRequests)?
    private let notices: RequestNotices
    private let state = Lock(State())

    /// The most monitors of a port.
    private static let most = 16
    /// The most messages whose end in a handler the tap awaits. Few threads handle messages at a time.
    private static let mostHandled = 256
    /// How long a program stays known. A process id may soon be another process's.
    private static let programTime = Duration.milliseconds(50)

    init(_ port: Receiver, _ notices: RequestNotices) {
        (self.port, requests, self.notices) = (Weak(port), port.requests, notices)
    }

    /// - Returns: False when there are too many.
    func add(_ monitor: EventStream) -> Bool {
        let isAdded = state.withLock { state in
            guard state.monitors.count < Self.most else { return false }
            state.monitors.append(monitor)
            return true
        }
        if isAdded { port.object?.intake.addTap(self) }
        return isAdded
    }

    /// - Returns: Whether the monitor was the last. The port may have another tap when the monitor was removed before.
    func remove(_ monitor: EventStream) -> Bool {
        let isLast = state.withLock { state in
            let former = state.monitors.count
            state.monitors.removeAll { $0 === monitor }
            return former > 0 && state.monitors.isEmpty
        }
        if isLast { port.object?.intake.removeTap(self) }
        return isLast
    }

    /// The program is looked up at once, because a sender may end soon.
    private func program(of pid: pid_t) -> String? {
        let now = MonotonicInstant.now
        let known = state.withLock { state in
            if state.programsEnd < now { (state.programs, state.programsEnd) = ([:], now + Self.programTime) }
            return state.programs[pid]
        }
        if let known { return known }
        let program = ProcessStatus.program(of: pid)
        state.withLock { $0.programs[pid] = .some(program) }
        return program
    }

    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int? {
        let numbered = state.withLockUnlessForked { state in
            state.lastNumber += 1
            return (number: state.lastNumber, monitors: state.monitors)
        }
        guard let (number, monitors) = numbered else { return nil }
        // The filters are asked before the event is made, because most messages of a flood are left out.
        let wanting = monitors.filter { $0.filter.wants(message, program) && $0.hasRoom() }
        if wanting.isEmpty { return nil }
        let (event, since) = (PortEvent(message, number, requests, program: program), MonotonicInstant.now)
        for monitor in wanting { monitor.add(event) }
        if event.kind == .request {
            noteEnd(of: message, event, since)
            return nil
        }
        guard hasHandler else { return nil }
        let isNoted = state.withLock { state in
            guard state.handled.count < Self.mostHandled else { return false }
            state.handled[number] = (event, since)
            return true
        }
        if !isNoted { for monitor in wanting { monitor.leaveOut() } }
        return isNoted ? number : nil
    }

    private func noteEnd(of request: ReceivedMessage, _ event: PortEvent, _ since: MonotonicInstant) {
        guard let asker = request.replyChannel?.id.incarnation else { return }
        notices.monitor(RequestID(asker: asker, number: request.header.request)) { [weak self] end in
            let kind: PortEvent.Kind =
                switch end {
                case nil: .cancelled
                case .answered: .reply
                case .failed: .failure
                case .unanswered, .refused: .unanswered
                }
            for monitor in self?.monitors(for: event) ?? [] { monitor.add(PortEvent(event, kind, since)) }
        }
    }

    func handled(_ number: Int) {
        // The handler may have forked.
        let noted = state.withLockUnlessForked { $0.handled.removeValue(forKey: number) } ?? nil
        guard let (message, since) = noted else { return }
        let event = PortEvent(message, .handled, since)
        for monitor in monitors(for: message) { monitor.add(event) }
    }

    private func monitors(for message: PortEvent) -> [EventStream] {
        (state.withLockUnlessForked { $0.monitors } ?? []).filter { $0.filter.wants(message) }
    }
}

extension PortEvent.Filter {
    fileprivate func wants(_ message: ReceivedMessage, _ program: (pid_t) -> String?) -> Bool {
        // A frame is larger than its components.
        wants(
            id: message.header.id,
            size: message.size < minimumSize ? message.size : PortEvent.Sizes(message).size,
            sender: message.sender?.pid ?? 0, program: program)
    }
}

extension PortEvent {
    fileprivate struct Sizes {
        private(set) var sizes: [Int] = []
        private(set) var ports = 0
        let size: Int

        private static let most = 16

        init(_ message: ReceivedMessage) {
            // A message may have any number of components, and finding one takes a walk from the first on.
            for index in 0..<min(message.componentCount, Self.most) {
                var size: Int?
                message.readBytes(ofComponent: index) { size = $0.count }
                if size == nil { ports += 1 }
                sizes.append(size ?? 0)
            }
            size = message.componentCount > Self.most ? message.size : sizes.reduce(0, +)
        }
    }

    fileprivate init(
        _ message: ReceivedMessage, _ number: Int, _ requests: (any TakenRequests)?, program: (pid_t) -> String?
    ) {
        let (header, sizes) = (message.header, Sizes(message))
        let sender = message.sender?.pid ?? 0
        self.init(
            kind: header.kind == .request ? .request : .message, time: Self.now, number: number, id: header.id,
            name: requests?.name(ofRequests: header.id)?.bounded, sizes: sizes.sizes, size: sizes.size,
            ports: sizes.ports, sender: sender, program: program(sender), duration: nil)
    }

    fileprivate init(_ message: PortEvent, _ kind: Kind, _ since: MonotonicInstant) {
        self.init(
            kind: kind, time: Self.now, number: message.number, id: message.id, name: message.name,
            sizes: message.sizes,
            size: message.size, ports: message.ports, sender: message.sender, program: message.program,
            duration: since.duration(to: .now))
    }

    private static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
