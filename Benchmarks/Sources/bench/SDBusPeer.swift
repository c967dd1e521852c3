#if SD_BUS
    import CSystemd
    import Glibc

    /// systemd's D-Bus library, peer to peer over a socketpair, without a bus between. A counted message is a call that
    /// expects no reply; a question is a call, and so is the order to answer when all have been counted.
    final class SDBusPeer: ExtraPeer, @unchecked Sendable {
        // Sound: one thread at a time uses the connection, and callbacks run on that thread.
        private let connection: BusConnection
        private var questions = Questions(1, asked: 1)
        private var clock: TripClock?
        private var isOver = false
        let child: Child?

        private init(_ connection: BusConnection, child: Child) {
            self.connection = connection
            self.child = child
        }

        static let role = "sd-bus"
        static let name = "sd-bus, peer to peer"

        static func inChild(_ directory: String) throws -> SDBusPeer {
            var ends: [Int32] = [-1, -1]
            guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
                throw BenchError.system("socketpair", errno: errno)
            }
            defer { close(ends[1]) }
            let child = try Child("\(role) -", handing: ends[1])
            return SDBusPeer(try BusConnection(ends[0], isServer: false), child: child)
        }

        static func serve(_ argument: String) throws {
            let connection = try BusConnection(Child.handed, isServer: true)
            let echo = BusEcho(connection)
            try withExtendedLifetime(echo) {
                try connection.serve(Unmanaged.passUnretained(echo).toOpaque()) { call, echo, _ in
                    if let echo { Unmanaged<BusEcho>.fromOpaque(echo).takeUnretainedValue().take(call) }
                    return 1
                }
                while true { try connection.process() }
            }
        }

        func bind(_ placement: Placement) throws {
            placement.bindNear()
            try connection.send(Request.bind(placement), [])
        }

        func oneWay(_ messages: Int, payload: [UInt8]) throws {
            (questions, isOver) = (Questions(1, asked: 1), false)
            try ask(Request.expect(messages), UnsafeRawBufferPointer(start: nil, count: 0))
            for _ in 0..<messages { try connection.send(Request.count, payload) }
            while !isOver { try connection.process() }
        }

        func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
            (self.questions, self.clock, isOver) = (Questions(questions, asked: inFlight), clock, false)
            defer { self.clock = nil }
            clock?.start()
            try payload.withUnsafeBytes { payload in
                for _ in 0..<inFlight { try ask(Request.answer, payload) }
            }
            while !isOver { try connection.process() }
        }

        private func ask(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws {
            try connection.ask(number, payload, Unmanaged.passUnretained(self).toOpaque()) { reply, peer, _ in
                if let peer { Unmanaged<SDBusPeer>.fromOpaque(peer).takeUnretainedValue().take(reply) }
                return 1
            }
        }

        private func take(_ reply: OpaquePointer?) {
            do {
                let payload = try BusConnection.payload(reply)
                clock?.tick()
                switch questions.answered() {
                case .ask: try ask(Request.answer, payload)
                case .wait: break
                case .finish: isOver = true
                }
            } catch {
                fail(error)
            }
        }
    }

    /// The end that answers.
    private final class BusEcho {
        private let connection: BusConnection
        private var echo = Echo()
        /// The call that is answered when all have been counted.
        private var waiting: OpaquePointer?

        init(_ connection: BusConnection) { self.connection = connection }

        func take(_ call: OpaquePointer?) {
            do {
                let number = try BusConnection.number(call)
                if number != Request.answer, sd_bus_message_get_expect_reply(call) == 1 {
                    waiting = sd_bus_message_ref(call)
                }
                switch echo.reply(to: number) {
                case .none: break
                case .payload: try connection.reply(to: call, BusConnection.payload(call))
                case .empty:
                    try connection.reply(to: waiting, UnsafeRawBufferPointer(start: nil, count: 0))
                    waiting = sd_bus_message_unref(waiting)
                }
            } catch {
                fail(error)
            }
        }
    }
#endif
