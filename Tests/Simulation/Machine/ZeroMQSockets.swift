import Glibc
import SimulatedCalls

/// A frame of simulated libzmq.
struct Frame {
    let bytes: [UInt8]
    /// Of the connection that brought it; empty inside a process.
    let address: String
}

/// A context of simulated libzmq. As the real one, it has a thread that carries frames between processes.
final class ZeroMQ {
    let process: Process
    var inside: [String: Socket] = [:]
    private var sockets: [Socket] = []
    private var closing: [Socket] = []
    private var hasThread = false
    /// Changes when there may be work.
    let work = EventFile(0)
    private var isTerminated = false

    init(_ process: Process) { self.process = process }

    func makeSocket(_ isPull: Bool) -> Socket? {
        let event = EventFile(0)
        let number = process.add(event)
        guard number >= 0 else { return nil }
        let made = Socket(self, isPull, event, number)
        sockets.append(made)
        if !hasThread {
            hasThread = true
            machine.makeThread(process, "zeromq") { [self] in carry() }
        }
        return made
    }

    private var all: [Socket] { sockets + closing }

    private func carry() {
        while true {
            let deadline = closing.compactMap(\.closeDeadline).min().flatMap { $0 == .max ? nil : $0 }
            _ = machine.wait(until: deadline, for: [work]) { [self] in isOver || all.contains(where: \.hasWork) }
            if isOver { return }
            let busy = all.filter(\.hasWork)
            if !busy.isEmpty { machine.chance.pick(busy).work() }
            for socket in closing where socket.isFlushed {
                socket.end()
                closing.removeAll { $0 === socket }
            }
        }
    }

    private var isOver: Bool { isTerminated && sockets.isEmpty && closing.isEmpty }

    func close(_ socket: Socket) {
        sockets.removeAll { $0 === socket }
        closing.append(socket)
        let linger = UInt64(max(socket.linger, 0)) * 1_000_000
        socket.closeDeadline = socket.linger < 0 ? .max : machine.now + linger
        work.noteChange()
    }

    func terminate() {
        isTerminated = true
        work.noteChange()
        _ = machine.wait(until: nil) { [self] in sockets.isEmpty && closing.isEmpty }
    }
}

extension ZeroMQ {
    final class Socket {
        /// One connection.
        final class Pipe {
            /// Of another process; nil inside the process.
            var file: SocketFile?
            var number: Int32 = -1
            weak var other: Socket?
            var queue: [Frame] = []
            /// Whether the peer has accepted, for a pipe that sends.
            var isUp = false
            var isOver = false
            /// Whether the reader knows of frames, or the writer of room.
            var isActive = false
            var address = ""
        }

        let isPull: Bool
        let context: ZeroMQ
        let event: EventFile
        let number: Int32
        var limit = 1000
        var keepsOne = false
        /// The milliseconds to flush after closing; below zero without end.
        var linger: Int32 = -1
        /// The end of the flush; nil before the socket is closed.
        var closeDeadline: UInt64?
        var isClosing: Bool { closeDeadline != nil }
        private var listeners: [(file: SocketFile, number: Int32)] = []
        var given: Int32 = -1
        private var pipes: [Pipe] = []
        private var isTold = false

        init(_ context: ZeroMQ, _ isPull: Bool, _ event: EventFile, _ number: Int32) {
            (self.context, self.isPull, self.event, self.number) = (context, isPull, event, number)
        }

        private var process: Process { context.process }

        // MARK: Addresses

        func bind(_ address: String) -> Int32 {
            if address.hasPrefix("inproc://") {
                if context.inside[address] != nil { return EADDRINUSE }
                context.inside[address] = self
                return 0
            }
            guard let file = process.descriptors[given] as? SocketFile else { return EBADF }
            listeners.append((file, given))
            file.sets.append(context.work)
            context.work.noteChange()
            return 0
        }

        func connect(_ address: String) -> Int32 {
            let pipe = Pipe()
            pipes.append(pipe)
            if address.hasPrefix("inproc://") {
                guard let other = context.inside[address] else { return ECONNREFUSED }
                pipe.other = other
                (pipe.isUp, pipe.isActive) = (true, true)
                let back = Pipe()
                back.other = self
                other.pipes.append(back)
                other.tell()
                return 0
            }
            let file = SocketFile(isStream: true)
            let number = process.add(file)
            guard number >= 0 else { return EMFILE }
            (pipe.file, pipe.number) = (file, number)
            path = String(address.dropFirst("ipc://".count))
            file.sets.append(context.work)
            context.work.noteChange()
            return 0
        }

        /// Where the connection goes that was not tried yet.
        private var path: String?

        func unbind(_ address: String) { if context.inside[address] === self { context.inside[address] = nil } }

        func disconnect() { for pipe in pipes where pipe.other != nil { leave(pipe) } }

        private func leave(_ pipe: Pipe) {
            pipe.isOver = true
            guard let other = pipe.other else { return }
            for back in other.pipes where back.other === self { back.isOver = true }
            other.tell()
        }

        /// There is a command for the socket, as libzmq's descriptor reports it.
        private func tell() {
            isTold = true
            if event.readiness & Ready.readable == 0 { event.add(1) }
        }

        // MARK: The owner's thread

        /// Handles the commands, which silences the descriptor.
        private func handleCommands() {
            guard isTold else { return }
            isTold = false
            _ = event.take()
            pipes.removeAll { $0.isOver && $0.queue.isEmpty }
            for pipe in pipes { pipe.isActive = isPull ? !pipe.queue.isEmpty : pipe.isUp && hasRoom(pipe) }
        }

        private func hasRoom(_ pipe: Pipe) -> Bool { keepsOne || pipe.queue.count < limit }

        func send(_ bytes: [UInt8]) -> Int32 {
            // libzmq handles commands now and then.
            if machine.chance.oneIn(4) { handleCommands() }
            guard let pipe = pipes.first(where: { $0.isActive && !$0.isOver }) else { return EAGAIN }
            guard hasRoom(pipe) else {
                pipe.isActive = false
                return EAGAIN
            }
            let frame = Frame(bytes: bytes, address: "")
            guard let other = pipe.other else {
                pipe.queue.append(frame)
                context.work.noteChange()
                return 0
            }
            for back in other.pipes where back.other === self {
                if keepsOne { back.queue = [frame] } else { back.queue.append(frame) }
                other.tell()
            }
            return 0
        }

        func receive() -> Frame? {
            for attempt in 0..<2 {
                if attempt == 1 || machine.chance.oneIn(4) { handleCommands() }
                // Pipes take turns.
                guard let index = pipes.firstIndex(where: { $0.isActive && !$0.queue.isEmpty }) else {
                    for pipe in pipes { pipe.isActive = false }
                    continue
                }
                let pipe = pipes.remove(at: index)
                defer { pipes.append(pipe) }
                if pipe.queue.count == limit { context.work.noteChange() }
                return pipe.queue.removeFirst()
            }
            return nil
        }

        var events: Int32 {
            handleCommands()
            if isPull { return pipes.contains { $0.isActive && !$0.queue.isEmpty } ? 1 : 0 }
            return pipes.contains { $0.isActive && !$0.isOver && hasRoom($0) } ? 2 : 0
        }

        // MARK: The context's thread

        var hasWork: Bool {
            if isClosing, isFlushed { return true }
            if path != nil { return true }
            if !isClosing, listeners.contains(where: { $0.file.readiness != 0 }) { return true }
            return pipes.contains(where: hasWork)
        }

        private func hasWork(_ pipe: Pipe) -> Bool {
            guard let file = pipe.file, !pipe.isOver else { return false }
            if isPull { return pipe.queue.count < limit && file.readiness & (Ready.readable | Ready.hangUp) != 0 }
            if file.readiness & (Ready.readable | Ready.hangUp) != 0 { return true }
            return pipe.isUp && !pipe.queue.isEmpty && file.readiness & Ready.writable != 0
        }

        /// Does one piece of work.
        func work() {
            if let path {
                self.path = nil
                machine.step("zeromq connects to \(path)")
                return call(path)
            }
            if !isClosing, let listener = listeners.first(where: { $0.file.readiness != 0 }) {
                machine.step("zeromq accepts at \(listener.file.path)")
                return answer(listener.number)
            }
            guard let pipe = pipes.first(where: hasWork) else { return }
            machine.step("zeromq \(isPull ? "takes" : "sends"), \(pipe.queue.count) frames wait")
            // The next one has its turn then.
            pipes.removeAll { $0 === pipe }
            pipes.append(pipe)
            if isPull { take(pipe) } else { carry(pipe) }
        }

        private func call(_ path: String) {
            guard let pipe = pipes.first else { return }
            let result = path.withCString { simulate.connect(pipe.number, $0) }
            if result != 0 { close(pipe) }
        }

        private func answer(_ listener: Int32) {
            // By way of the guard.
            let number = simulated_accept(listener)
            guard number >= 0, let file = process.descriptors[number] as? SocketFile else { return }
            let pipe = Pipe()
            (pipe.file, pipe.number, pipe.isUp) = (file, number, true)
            pipe.address = "localhost:\(geteuid()):\(getegid()):\(file.peerPid)"
            pipes.append(pipe)
            file.sets.append(context.work)
            // The handshake.
            _ = file.send([0], [])
        }

        private func take(_ pipe: Pipe) {
            guard let file = pipe.file else { return }
            switch file.receive() {
            case .packet(let packet):
                let wasEmpty = pipe.queue.isEmpty
                pipe.queue.append(Frame(bytes: packet.bytes, address: pipe.address))
                if wasEmpty || !pipe.isActive { tell() }
            case .end, .failure: close(pipe)
            }
        }

        private func carry(_ pipe: Pipe) {
            guard let file = pipe.file else { return }
            if file.readiness & (Ready.readable | Ready.hangUp) != 0 {
                guard case .packet = file.receive() else { return close(pipe) }
                pipe.isUp = true
                return tell()
            }
            guard let frame = pipe.queue.first, file.send(frame.bytes, []) >= 0 else { return }
            pipe.queue.removeFirst()
            if !pipe.isActive, pipe.queue.count <= limit / 2 { tell() }
        }

        /// The connection has ended.
        private func close(_ pipe: Pipe) {
            pipe.isOver = true
            if !isPull { pipe.queue = [] }
            _ = process.close(pipe.number)
            tell()
        }

        var isFlushed: Bool {
            closeDeadline.map { $0 <= machine.now } == true || isPull
                || path == nil && pipes.allSatisfy { $0.isOver || $0.file == nil || $0.queue.isEmpty }
        }

        /// After the last frame.
        func end() {
            disconnect()
            for pipe in pipes where pipe.file != nil && !pipe.isOver { close(pipe) }
            for listener in listeners { _ = process.close(listener.number) }
            for (address, socket) in context.inside where socket === self { context.inside[address] = nil }
            _ = process.close(number)
        }
    }
}
