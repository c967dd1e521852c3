#if NATS_PEER
    import CNATSClient
    import Dispatch
    import Glibc
    import NATSPorts
    import TypedPorts

    /// Typed requests and streams through a server of NATS, beside the same bytes by libnats alone through the same server.
    struct NATSPeer {
        static let role = "NATS"

        struct Point: PortRequest, NetworkRequest {
            typealias Reply = Point
            var id: Int32
            var name: String
            var value: Double
        }

        struct Points: PortStreamRequest, NetworkRequest {
            typealias Element = Point
            var count: Int
        }

        static let point = Point(id: 7, name: "a port", value: 2.5)
        private static let (name, raw, flood) = ("bench.typed", "bench.raw", "bench.flood")

        private static func pointBytes() throws -> [UInt8] {
            var (bytes, attachments) = ([] as [UInt8], Attachments())
            try CBORCoder().encode(point, into: &bytes, attachments: &attachments)
            return bytes
        }

        // MARK: The server

        private static func check(_ status: natsStatus) throws {
            if status != NATS_OK { throw BenchError.noAnswer }
        }

        /// - Parameter isEager: Whether each message leaves at once, and not within a millisecond.
        private static func connect(_ url: String, isEager: Bool = false) throws -> OpaquePointer {
            var (connection, options): (OpaquePointer?, OpaquePointer?)
            try check(natsOptions_Create(&options))
            defer { natsOptions_Destroy(options) }
            try check(natsOptions_SetURL(options, url))
            try check(natsOptions_SetSendAsap(options, isEager))
            try check(natsConnection_Connect(&connection, options))
            guard let connection else { throw BenchError.noAnswer }
            return connection
        }

        /// The child's side; does not return.
        static func serve(_ url: String) throws {
            let (echoing, flooding) = (try connect(url, isEager: true), try connect(url))
            var subscription: OpaquePointer?
            try check(
                natsConnection_Subscribe(
                    &subscription, echoing, raw,
                    { connection, _, message, _ in
                        _ = natsConnection_Publish(
                            connection, natsMsg_GetReply(message), natsMsg_GetData(message),
                            natsMsg_GetDataLength(message))
                        natsMsg_Destroy(message)
                    }, nil))
            // The message says how many are wanted.
            try check(
                natsConnection_Subscribe(
                    &subscription, flooding, flood,
                    { connection, _, message, _ in
                        let text = String(cString: natsMsg_GetData(message))
                        let bytes = (try? NATSPeer.pointBytes()) ?? []
                        for _ in 0..<(Int(text) ?? 0) {
                            _ = natsConnection_Publish(connection, natsMsg_GetReply(message), bytes, Int32(bytes.count))
                        }
                        natsMsg_Destroy(message)
                    }, nil))
            Task {
                do {
                    let server = try RequestServer(name: name, on: try await NATSConnection(url))
                    server.handle(Point.self) { $0 }
                    server.handle(Points.self) { points in Copies(count: points.count) }
                    try await server.run()
                } catch { fail(error) }
            }
            dispatchMain()
        }

        /// The same point again and again.
        private struct Copies: AsyncSequence, AsyncIteratorProtocol, Sendable {
            var count: Int

            func makeAsyncIterator() -> Copies { self }

            mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Point? {
                count -= 1
                return count >= 0 ? point : nil
            }
        }

        // MARK: The client

        private let nats: ServerProcess
        private let child: Child
        private let client: RequestClient
        private let connection: RawConnection

        private init() throws {
            nats = try ServerProcess()
            child = try Child("\(Self.role) \(nats.url)")
            connection = RawConnection(try Self.connect(nats.url))
            let url = nats.url
            client = try Self.wait {
                let client = try RequestClient(Self.name, on: try await NATSConnection(url))
                while (try? await client.request(Self.point)) == nil {}
                return client
            }
        }

        static func wait<Value: Sendable>(
            _ body: @escaping @Sendable () async throws -> Value
        ) throws -> Value {
            let isOver = DispatchSemaphore(value: 0)
            // Sound: the semaphore stands between the write and the read.
            nonisolated(unsafe) var result: Result<Value, any Error>?
            Task.detached {
                do { result = .success(try await body()) } catch { result = .failure(error) }
                isOver.signal()
            }
            isOver.wait()
            guard let result else { throw BenchError.noAnswer }
            return try result.get()
        }

        static let trips = 2000
        static let elements = 200_000

        private func typedTrip() throws -> Double {
            let begin = ContinuousClock.now
            try Self.wait { [client] in for _ in 0..<Self.trips { _ = try await client.request(Self.point) } }
            return begin.duration(to: .now) / .microseconds(Self.trips)
        }

        private func rawTrip() throws -> Double {
            let bytes = try Self.pointBytes()
            let begin = ContinuousClock.now
            for _ in 0..<Self.trips {
                var reply: OpaquePointer?
                try Self.check(
                    natsConnection_Request(&reply, connection.pointer, Self.raw, bytes, Int32(bytes.count), 10_000))
                natsMsg_Destroy(reply)
            }
            return begin.duration(to: .now) / .microseconds(Self.trips)
        }

        private func rate(_ body: () throws -> Void) rethrows -> Double {
            let begin = ContinuousClock.now
            try body()
            return Double(Self.elements) / (begin.duration(to: .now) / .seconds(1))
        }

        private func stream() throws -> Double {
            try rate {
                let count = try Self.wait { [client] in
                    var count = 0
                    for try await point in client.stream(Points(count: Self.elements)) where point.id == 7 {
                        count += 1
                    }
                    return count
                }
                guard count == Self.elements else { throw BenchError.noAnswer }
            }
        }

        private func rawFlood() throws -> Double {
            try rate {
                var (subscription, message): (OpaquePointer?, OpaquePointer?)
                try Self.check(natsConnection_SubscribeSync(&subscription, connection.pointer, "bench.flooded"))
                defer { natsSubscription_Destroy(subscription) }
                try Self.check(natsSubscription_SetPendingLimits(subscription, -1, -1))
                try Self.check(
                    natsConnection_PublishRequestString(
                        connection.pointer, Self.flood, "bench.flooded", "\(Self.elements)"))
                for _ in 0..<Self.elements {
                    try Self.check(natsSubscription_NextMsg(&message, subscription, 10_000))
                    natsMsg_Destroy(message)
                }
            }
        }

        static var rows: [Row] {
            let peer = Shared { try NATSPeer() }
            let rivals = GRPCRivals()
            return [
                Row(part: "two processes", work: "typed request and reply through NATS") {
                    let peer = try peer.value
                    return Contest(
                        .microseconds, ours: { try peer.typedTrip() },
                        rivals: [Contestant("libnats, bytes without types", .atMost(1.3)) { try peer.rawTrip() }]
                            + rivals.trip)
                },
                Row(part: "two processes", work: "typed stream through NATS, one way") {
                    let peer = try peer.value
                    return Contest(
                        .messagesASecond, ours: { try peer.stream() },
                        rivals: [Contestant("libnats, a message each", .atLeast(0.5)) { try peer.rawFlood() }]
                            + rivals.stream)
                },
            ]
        }
    }

    /// A connection of libnats, which locks it.
    private final class RawConnection: @unchecked Sendable {
        // Sound: libnats takes calls of any thread.
        let pointer: OpaquePointer

        init(_ pointer: OpaquePointer) { self.pointer = pointer }

        deinit { natsConnection_Destroy(pointer) }
    }

    /// A server of NATS on loopback.
    private final class ServerProcess: Sendable {
        private let child: pid_t
        let url: String

        init() throws {
            let port = 20_000 + Int(getpid()) % 20_000
            url = "nats://127.0.0.1:\(port)"
            var arguments: [UnsafeMutablePointer<CChar>?] = [
                "nats-server", "-a", "127.0.0.1", "-p", "\(port)", "-l", "/dev/null",
            ].map { (text: String) in strdup(text) }
            arguments.append(nil)
            defer { for argument in arguments { free(argument) } }
            var pid: pid_t = 0
            setenv("PATH", "\(getenv("PATH").map { String(cString: $0) } ?? ""):/usr/sbin", 1)
            let error = posix_spawnp(&pid, "nats-server", nil, nil, &arguments, environ)
            guard error == 0 else { throw BenchError.system("posix_spawnp", errno: error) }
            child = pid
            var connection: OpaquePointer?
            let deadline = ContinuousClock.now + .seconds(10)
            while natsConnection_ConnectTo(&connection, url) != NATS_OK {
                if deadline < .now { throw BenchError.noAnswer }
                usleep(10_000)
            }
            natsConnection_Destroy(connection)
        }

        deinit {
            kill(child, SIGTERM)
            waitpid(child, nil, 0)
        }
    }
#endif
