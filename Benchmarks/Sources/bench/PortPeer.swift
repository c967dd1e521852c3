import Dispatch
import Ports
import RunLoops

/// Our ports: each end is a `MachPort` that a host of its own serves, and its handler does the work.
final class PortPeer<Host: PortHost>: HandingOver {
    private let right: MachPort.SendRight
    private let asker: Asker<Host>
    /// Keeps the other end.
    private let host: Host?
    let child: Child?

    private init(_ right: MachPort.SendRight, _ asker: Asker<Host>, host: Host? = nil, child: Child? = nil) {
        self.right = right
        self.asker = asker
        self.host = host
        self.child = child
    }

    /// To another host of this process.
    static func inThread(_ makeHost: () throws -> Host) throws -> PortPeer {
        let host = try makeHost()
        let asker = try Asker(makeHost())
        let echo = try Self.echo(answering: asker.port.sendRight, on: host)
        try asker.begin(with: echo.sendRight)
        return PortPeer(echo.sendRight, asker, host: host)
    }

    static var role: String { "ports" }
    private static func askerName(_ pollingTime: Duration) -> String {
        "benchmark asker, polling for \(pollingTime / .microseconds(1))"
    }
    var canBind: Bool { Host.isThread }

    /// To a child: it finds our port by its name, and tells us its own.
    /// - Parameter pollingTime: How long both ends' loops stay awake for the next message.
    static func inChild(pollingTime: Duration = .zero) throws -> PortPeer where Host == OurThread {
        let asker = try Asker(OurThread(pollingTime: pollingTime))
        try PortNameServer.shared.register(asker.port, name: askerName(pollingTime))
        let child = try Child("\(role) \(Int(pollingTime / .microseconds(1)))")
        let right = try asker.checkedIn()
        try asker.begin(with: right)
        return PortPeer(right, asker, child: child)
    }

    /// The child's side; does not return.
    static func serve(pollingTime: Duration) throws where Host == OurThread {
        let asker = try PortNameServer.shared.port(forName: askerName(pollingTime))
        let host = try OurThread(pollingTime: pollingTime)
        let echo = try echo(answering: asker, on: host)
        try asker.send(MachPort.Message(replyPort: echo.sendRight))
        host.thread.join()
    }

    /// Counts and answers.
    private static func echo(answering asker: MachPort.SendRight, on host: Host) throws -> MachPort {
        let echo = LoopOwned(Echo())
        let port = try MachPort(queueLimit: Int(queueLimit), messageLimit: 128 << 20)
        try host.serve(port) { message in
            do {
                switch echo.value.reply(to: message.id) {
                case .none: break
                case .payload: try message.withBytes { try asker.send(id: Request.answer, bytes: $0) }
                case .empty: try asker.send(id: Request.answer, bytes: nothing.span.bytes)
                }
            } catch {
                fail(error)
            }
        }
        return port
    }

    private static var nothing: [UInt8] { [] }

    func bind(_ placement: Placement) throws {
        // The thread that sends without waiting, and the thread that takes turns with the other end.
        placement.bindNear()
        asker.bind(placement)
        try right.send(id: Request.bind(placement), bytes: Self.nothing.span.bytes)
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        asker.expect(Questions(1, asked: 1))
        try right.send(id: Request.expect(messages), bytes: Self.nothing.span.bytes)
        for _ in 0..<messages { try right.send(id: Request.count, bytes: payload.span.bytes) }
        try asker.isOver.waitForAnswer()
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        let share = messages / threads.count
        asker.expect(Questions(1, asked: 1))
        try right.send(id: Request.expect(share * threads.count), bytes: Self.nothing.span.bytes)
        try threads.run { [right] _ in
            for _ in 0..<share { try right.send(id: Request.count, bytes: payload.span.bytes) }
        }
        try asker.isOver.waitForAnswer()
    }

    func oneWay(_ messages: Int, handingOver bytes: SharedBytes) throws {
        asker.expect(Questions(1, asked: 1))
        try right.send(id: Request.expect(messages), bytes: Self.nothing.span.bytes)
        for _ in 0..<messages { try right.send(MachPort.Message(id: Request.count, [.bytes(bytes.array)])) }
        try asker.isOver.waitForAnswer()
    }

    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
        asker.expect(Questions(questions, asked: inFlight), clock)
        clock?.start()
        for _ in 0..<inFlight { try right.send(id: Request.answer, bytes: payload.span.bytes) }
        try asker.isOver.waitForAnswer()
    }
}

/// The end that asks: the port that the answers come to. As raw libzmq's loop, its handler has no lock around what only
/// its thread uses.
private final class Asker<Host: PortHost>: @unchecked Sendable {
    // Sound: `questions` and `clock` are set while no message is under way, and the loop's thread alone uses them then.
    private var questions = Questions(1, asked: 1)
    private var clock: TripClock?
    let port: MachPort
    let isOver = DispatchSemaphore(value: 0)
    private let host: Host

    init(_ host: Host) throws {
        self.host = host
        port = try MachPort(queueLimit: Int(queueLimit))
    }

    /// The right that the other end sends when it is ready.
    func checkedIn() throws -> MachPort.SendRight {
        guard let right = try port.receive(before: .now + .seconds(10)).replyPort else { throw BenchError.noChild }
        return right
    }

    /// From now on, the handler takes the answers, and asks the next question where one follows.
    func begin(with right: MachPort.SendRight) throws {
        try host.serve(port) { [unowned self] message in
            clock?.tick()
            switch questions.answered() {
            case .ask:
                do { try message.withBytes { try right.send(id: Request.answer, bytes: $0) } } catch { fail(error) }
            case .wait: break
            case .finish: isOver.signal()
            }
        }
    }

    func bind(_ placement: Placement) { if Host.isThread { host.execute { placement.bindNear() } } }

    func expect(_ questions: Questions, _ clock: TripClock? = nil) {
        self.questions = questions
        self.clock = clock
    }
}

/// A value that only the thread of one loop uses.
private final class LoopOwned<Value>: @unchecked Sendable {
    // Sound: handlers of one loop run one after the other.
    var value: Value
    init(_ value: Value) { self.value = value }
}
