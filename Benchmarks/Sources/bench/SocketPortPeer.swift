#if SOCKET_PORT
    import Foundation

    /// Foundation's `SocketPort` over TCP, which is all that its name server's ports can be. Each end runs the loop of
    /// its thread.
    final class SocketPortPeer: ExtraPeer, PortDelegate, @unchecked Sendable {
        // Sound: one thread at a time uses it, and the port's delegate is called while that thread runs its loop.
        private let inbox: SocketPort
        private var outbox: SocketPort?
        private var questions = Questions(1, asked: 1)
        private var clock: TripClock?
        private var isOver = false
        let child: Child?

        private init(_ inbox: SocketPort, child: Child) {
            self.inbox = inbox
            self.child = child
            inbox.setDelegate(self)
        }

        static let role = "SocketPort"
        static let name = "SocketPort, TCP"
        static let note: String? = """
            one message at a time, as a receiver that reads two at once crashes; those of less than 12 B, and those
            that one read does not take whole, are lost (swift-corelibs-foundation)
            """
        var inFlightLimit: Int { 1 }
        var payloads: ClosedRange<Int> { SocketPort.payloads }

        static func inChild(_ directory: String) throws -> SocketPortPeer {
            let inbox = try SocketPort.listening()
            let peer = SocketPortPeer(inbox, child: try Child("\(role) \(inbox.number)"))
            // The child says where it listens.
            try peer.run()
            return peer
        }

        static func serve(_ number: String) throws {
            let inbox = try SocketPort.listening()
            let asker = try SocketPort.remote(UInt16(number) ?? 0)
            let echo = SocketEcho(asker)
            inbox.setDelegate(echo)
            inbox.schedule(in: .current, forMode: .default)
            try asker.send(UInt32(inbox.number), SocketPort.nothing)
            withExtendedLifetime(echo) { RunLoop.current.run() }
        }

        func bind(_ placement: Placement) throws {
            placement.bindNear()
            isOver = false
            // Answered, so that no other message follows too soon.
            try outbox?.send(Request.bind(placement), SocketPort.nothing)
            questions = Questions(1, asked: 1)
            try run()
        }

        func oneWay(_ messages: Int, payload: [UInt8]) throws {
            preconditionFailure("only one message is under way")
        }

        func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
            (self.questions, self.clock, isOver) = (Questions(questions, asked: 1), clock, false)
            defer { self.clock = nil }
            let payload = Data(payload)
            clock?.start()
            try outbox?.send(Request.answer, payload)
            try run()
        }

        /// Until the last answer.
        private func run() throws {
            inbox.schedule(in: .current, forMode: .default)
            defer { inbox.remove(from: .current, forMode: .default) }
            let deadline = Date(timeIntervalSinceNow: TimeInterval(answerSeconds))
            while !isOver {
                guard RunLoop.current.run(mode: .default, before: deadline), Date() < deadline else {
                    throw BenchError.noAnswer
                }
            }
        }

        func handle(_ message: PortMessage) {
            do {
                guard let outbox else {
                    outbox = try SocketPort.remote(UInt16(message.msgid))
                    isOver = true
                    return
                }
                clock?.tick()
                switch questions.answered() {
                case .ask: try outbox.send(Request.answer, message.payload)
                case .wait: break
                case .finish: isOver = true
                }
            } catch {
                fail(error)
            }
        }
    }

    /// The end that answers.
    private final class SocketEcho: PortDelegate {
        private let asker: SocketPort

        init(_ asker: SocketPort) { self.asker = asker }

        func handle(_ message: PortMessage) {
            Request.placement(message.msgid)?.bindFar()
            do { try asker.send(Request.answer, message.payload) } catch { fail(error) }
        }
    }

    extension SocketPort {
        fileprivate static let payloads = 12...16 << 10
        fileprivate static let nothing = Data(count: payloads.lowerBound)

        fileprivate static func listening() throws -> SocketPort {
            guard let port = SocketPort(tcpPort: 0) else { throw BenchError.system("SocketPort", errno: errno) }
            return port
        }

        fileprivate static func remote(_ number: UInt16) throws -> SocketPort {
            guard let port = SocketPort(remoteWithTCPPort: number, host: "127.0.0.1") else {
                throw BenchError.system("SocketPort", errno: errno)
            }
            return port
        }

        /// TCP's number of the port.
        fileprivate var number: UInt16 {
            UInt16(bigEndian: address.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self) })
        }

        fileprivate func send(_ number: UInt32, _ payload: Data) throws {
            let parts = NSMutableArray(object: payload as NSData)
            guard
                send(
                    before: Date(timeIntervalSinceNow: TimeInterval(answerSeconds)), msgid: Int(number),
                    components: parts, from: nil, reserved: 0)
            else { throw BenchError.noAnswer }
        }
    }

    extension PortMessage {
        fileprivate var payload: Data { (components?.first as? NSData).map { Data(referencing: $0) } ?? Data() }
    }
#endif
