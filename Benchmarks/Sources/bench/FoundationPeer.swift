import Dispatch
import Foundation
import FoundationPorts

/// Two threads that run Foundation's loops, with a `Foundation.Port` each.
final class FoundationPeer: Contender, PortDelegate, @unchecked Sendable {
    // Sound: the thread of a row alone uses it, also as a delegate.
    private let inbox: Port
    private let outbox: Port
    private let far: Port
    private var questions = Questions(1, asked: 1)
    private var clock: TripClock?
    private var isOver = false

    let payloads: ClosedRange<Int>
    let inFlightLimit: Int

    /// NSMachPort, of this library.
    static func ours() throws -> FoundationPeer {
        try FoundationPeer(0...(.max), inFlightLimit: .max, inbox: { NSMachPort() }, outbox: { $0 })
    }

    /// SocketPort, which is all that Foundation has. A receiver that reads two messages at once crashes, and a message of
    /// less than 12 B, or one that one read does not take whole, is lost.
    static func socket() throws -> FoundationPeer {
        try FoundationPeer(
            12...16 << 10, inFlightLimit: 1, inbox: { SocketPort(tcpPort: 0) },
            outbox: { port in
                guard let socket = port as? SocketPort else { return nil }
                let number = socket.address.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self) }
                return SocketPort(remoteWithTCPPort: UInt16(bigEndian: number), host: "127.0.0.1")
            })
    }

    private init(
        _ payloads: ClosedRange<Int>, inFlightLimit: Int, inbox makeInbox: () -> Port?,
        outbox makeOutbox: @escaping @Sendable (Port) -> Port?
    ) throws {
        guard let inbox = makeInbox(), let far = makeInbox(), let outbox = makeOutbox(far) else {
            throw BenchError.noChild
        }
        (self.inbox, self.far, self.outbox) = (inbox, far, outbox)
        (self.payloads, self.inFlightLimit) = (payloads, inFlightLimit)
        nonisolated(unsafe) let (near, end) = (inbox, far)
        try PlainThread.start {
            guard let outbox = makeOutbox(near) else { return }
            let echo = PortEcho(outbox)
            end.setDelegate(echo)
            RunLoop.current.add(end, forMode: .default)
            while end.isValid { _ = RunLoop.current.run(mode: .default, before: .distantFuture) }
            withExtendedLifetime(echo) {}
        }
        inbox.setDelegate(self)
    }

    deinit {
        // Foundation crashes when a SocketPort that is in a loop is invalidated. Its thread ends with the program.
        if far is NSMachPort { far.invalidate() }
    }

    func bind(_ placement: Placement) throws {
        placement.bindNear()
        // Answered, so that no other message follows too soon.
        try run(Questions(1, asked: 1)) { try outbox.send(Request.bind(placement), smallest) }
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        let payload = NSData(bytes: payload, length: payload.count)
        try run(Questions(1, asked: 1)) {
            try outbox.send(Request.expect(messages), smallest)
            for _ in 0..<messages { try outbox.send(Request.count, payload) }
        }
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        preconditionFailure("one thread sends")
    }

    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
        let payload = NSData(bytes: payload, length: payload.count)
        self.clock = clock
        defer { self.clock = nil }
        try run(Questions(questions, asked: inFlight)) {
            clock?.start()
            for _ in 0..<inFlight { try outbox.send(Request.answer, payload) }
        }
    }

    /// Asks, and runs the loop until the last answer.
    private func run(_ questions: Questions, _ ask: () throws -> Void) throws {
        (self.questions, isOver) = (questions, false)
        inbox.schedule(in: .current, forMode: .default)
        defer { inbox.remove(from: .current, forMode: .default) }
        // Not a date for each run, which costs Foundation a source of libdispatch.
        nonisolated(unsafe) var isLate = false
        let limit = Date(timeIntervalSinceNow: TimeInterval(answerSeconds))
        let end = Timer(fire: limit, interval: 0, repeats: false) { _ in isLate = true }
        RunLoop.current.add(end, forMode: .default)
        defer { end.invalidate() }
        try ask()
        while !isOver {
            guard RunLoop.current.run(mode: .default, before: .distantFuture), !isLate else {
                throw BenchError.noAnswer
            }
        }
    }

    private var smallest: NSData { NSData(data: Data(count: payloads.lowerBound)) }

    func handle(_ message: PortMessage) {
        clock?.tick()
        switch questions.answered() {
        case .ask: do { try outbox.send(Request.answer, message.payload) } catch { fail(error) }
        case .wait: break
        case .finish: isOver = true
        }
    }
}

/// The end that answers.
private final class PortEcho: PortDelegate {
    private let asker: Port
    private var echo = Echo()

    init(_ asker: Port) { self.asker = asker }

    func handle(_ message: PortMessage) {
        let placement = Request.placement(message.msgid)
        placement?.bindFar()
        do {
            switch placement == nil ? echo.reply(to: message.msgid) : .empty {
            case .none: break
            case .payload: try asker.send(Request.answer, message.payload)
            case .empty: try asker.send(Request.answer, NSData(data: Data(count: 12)))
            }
        } catch {
            fail(error)
        }
    }
}

extension Port {
    fileprivate func send(_ number: UInt32, _ payload: NSData) throws {
        let limit = Date(timeIntervalSinceNow: TimeInterval(answerSeconds))
        let parts = NSMutableArray(object: payload)
        guard send(before: limit, msgid: Int(number), components: parts, from: nil, reserved: 0) else {
            throw BenchError.noAnswer
        }
    }
}

extension PortMessage {
    /// Not as `Data`, which would be made anew.
    fileprivate var payload: NSData { components?.first as? NSData ?? NSData() }
}
