#if LIBQB
    import CLibQB
    import Glibc

    /// libqb's IPC in shared memory, which corosync and pacemaker use: the child is the server in a loop of libqb's.
    final class QBPeer: ExtraPeer, @unchecked Sendable {
        // Sound: one thread at a time uses the connection and the buffer.
        private let connection: OpaquePointer
        private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: messageLimit, alignment: 16)
        let child: Child?

        private init(_ connection: OpaquePointer, child: Child) {
            self.connection = connection
            self.child = child
        }

        deinit {
            qb_ipcc_disconnect(connection)
            child?.waitForEnd()
            buffer.deallocate()
        }

        static let role = "libqb"
        static let name = "libqb, shared memory"
        /// Room for one message of the largest payload, and for many of the others.
        private static let messageLimit = (4 << 20) + 4096

        static func inChild(_ directory: String) throws -> QBPeer {
            let name = "ports-bench-\(getpid())"
            let child = try Child("\(role) \(name)")
            // Nothing tells when the server is there.
            for _ in 0..<10_000 {
                if let connection = qb_ipcc_connect(name, messageLimit) { return QBPeer(connection, child: child) }
                usleep(1000)
            }
            throw BenchError.noChild
        }

        static func serve(_ name: String) throws {
            try QBEcho().serve(name, messageLimit: UInt32(messageLimit))
        }

        var payloads: ClosedRange<Int> {
            0...(Self.messageLimit - MemoryLayout<qb_ipc_response_header>.size)
        }

        func bind(_ placement: Placement) throws {
            placement.bindNear()
            try send(Request.bind(placement), UnsafeRawBufferPointer(start: nil, count: 0))
        }

        func oneWay(_ messages: Int, payload: [UInt8]) throws {
            try send(Request.expect(messages), UnsafeRawBufferPointer(start: nil, count: 0))
            try payload.withUnsafeBytes { payload in
                for _ in 0..<messages { try send(Request.count, payload) }
            }
            _ = try receive()
        }

        func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
            var left = Questions(questions, asked: inFlight)
            try payload.withUnsafeBytes { payload in
                clock?.start()
                for _ in 0..<inFlight { try send(Request.answer, payload) }
                while true {
                    let answer = try receive()
                    clock?.tick()
                    switch left.answered() {
                    case .ask: try send(Request.answer, answer)
                    case .wait: break
                    case .finish: return
                    }
                }
            }
        }

        private func send(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws {
            var head = qb_ipc_request_header()
            head.id = Int32(number)
            head.size = Int32(MemoryLayout.size(ofValue: head) + payload.count)
            try withParts(&head, payload) { qb_ipcc_sendv(connection, $0, 2) }
        }

        private func receive() throws -> UnsafeRawBufferPointer {
            let size = qb_ipcc_recv(connection, buffer.baseAddress, buffer.count, answerSeconds * 1000)
            guard size >= 0 else { throw BenchError.system("qb_ipcc_recv", errno: Int32(-size)) }
            return UnsafeRawBufferPointer(rebasing: buffer[MemoryLayout<qb_ipc_response_header>.size..<size])
        }
    }

    /// The end that answers.
    private final class QBEcho {
        private var echo = Echo()

        func serve(_ name: String, messageLimit: UInt32) throws {
            var handlers = qb_ipcs_service_handlers()
            handlers.connection_accept = { _, _, _ in 0 }
            handlers.msg_process = { connection, message, _ in
                if let message, let echo = qb_ipcs_connection_service_context_get(connection) {
                    Unmanaged<QBEcho>.fromOpaque(echo).takeUnretainedValue().take(message, from: connection)
                }
                return 0
            }
            // The child ends once the loop has removed the shared memory.
            handlers.connection_destroyed = { _ in qb_loop_stop(nil) }
            // The default loop is what a nil loop means.
            let loop = qb_loop_create()
            var polls = qb_ipcs_poll_handlers(
                job_add: { qb_loop_job_add(nil, $0, $1, $2) },
                dispatch_add: { qb_loop_poll_add(nil, $0, $1, $2, $3, $4) },
                dispatch_mod: { qb_loop_poll_mod(nil, $0, $1, $2, $3, $4) },
                dispatch_del: { qb_loop_poll_del(nil, $0) })
            let service = qb_ipcs_create(name, 0, QB_IPC_SHM, &handlers)
            qb_ipcs_service_context_set(service, Unmanaged.passUnretained(self).toOpaque())
            qb_ipcs_poll_handlers_set(service, &polls)
            let error = qb_ipcs_run(service)
            guard error == 0 else { throw BenchError.system("qb_ipcs_run", errno: -error) }
            withExtendedLifetime(self) { qb_loop_run(loop) }
        }

        private func take(_ message: UnsafeMutableRawPointer, from connection: OpaquePointer?) {
            let head = message.load(as: qb_ipc_request_header.self)
            let size = MemoryLayout.size(ofValue: head)
            let payload = UnsafeRawBufferPointer(start: message + size, count: Int(head.size) - size)
            do {
                switch echo.reply(to: UInt32(head.id)) {
                case .none: break
                case .payload: try send(payload, to: connection)
                case .empty: try send(UnsafeRawBufferPointer(start: nil, count: 0), to: connection)
                }
            } catch {
                fail(error)
            }
        }

        private func send(_ payload: UnsafeRawBufferPointer, to connection: OpaquePointer?) throws {
            var head = qb_ipc_response_header()
            head.size = Int32(MemoryLayout.size(ofValue: head) + payload.count)
            try withParts(&head, payload) { qb_ipcs_response_sendv(connection, $0, 2) }
        }
    }

    /// Sends both parts as one message. Nobody tells when there is room again.
    private func withParts<Head>(
        _ head: inout Head, _ payload: UnsafeRawBufferPointer, _ send: (UnsafePointer<iovec>) -> Int
    ) throws {
        let size = withUnsafeMutableBytes(of: &head) { head in
            withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { parts in
                parts[0] = iovec(iov_base: head.baseAddress, iov_len: head.count)
                parts[1] = iovec(
                    iov_base: UnsafeMutableRawPointer(mutating: payload.baseAddress), iov_len: payload.count)
                guard let first = parts.baseAddress else { return 0 }
                var size = send(UnsafePointer(first))
                while size == -Int(EAGAIN) {
                    sched_yield()
                    size = send(UnsafePointer(first))
                }
                return size
            }
        }
        guard size >= 0 else { throw BenchError.system("libqb's send", errno: Int32(-size)) }
    }
#endif
