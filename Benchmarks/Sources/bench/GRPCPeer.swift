#if GRPC
    import Dispatch
    import GRPCCore
    import GRPCNIOTransportHTTP2Posix
    import Glibc
    import NIOCore
    import NIOPosix

    /// grpc-swift over a unix socket, with bytes as they are in place of protobuf. A question is a unary call; what goes
    /// one way is the stream of one call, whose answer is how many messages came.
    final class GRPCPeer: ExtraPeer {
        private let client: GRPCClient<HTTP2ClientTransport.Posix>
        private let executor: LoopExecutor
        let child: Child?

        private init(_ client: GRPCClient<HTTP2ClientTransport.Posix>, _ executor: LoopExecutor, child: Child) {
            self.client = client
            self.executor = executor
            self.child = child
        }

        static let role = "grpc-swift"
        static let name = "grpc-swift, unix socket"
        static let note: String? = "tasks run in the event loop, not in a pool, so that an end can be bound"

        static func inChild(_ directory: String) throws -> GRPCPeer {
            let path = "\(directory)/grpc"
            let child = try Child("\(role) \(path)")
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let transport = try HTTP2ClientTransport.Posix(
                target: .unixDomainSocket(path: path), transportSecurity: .plaintext,
                // The child may listen a little later.
                config: .defaults { $0.backoff.initial = .milliseconds(10) }, eventLoopGroup: group)
            let executor = LoopExecutor(group.next())
            let client = GRPCClient(transport: transport)
            executor.start { try await client.runConnections() }
            return GRPCPeer(client, executor, child: child)
        }

        static func serve(_ path: String) throws {
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let transport = HTTP2ServerTransport.Posix(
                address: .unixDomainSocket(path: path), transportSecurity: .plaintext,
                config: .defaults { $0.rpc.maxRequestPayloadSize = 8 << 20 }, eventLoopGroup: group)
            let server = GRPCServer(transport: transport, services: [GRPCEcho()])
            LoopExecutor(group.next()).start { try await server.serve() }
            while true { pause() }
        }

        func bind(_ placement: Placement) throws {
            try executor.run { [client] in
                placement.bindNear()
                _ = try await Self.ask([UInt8(placement.rawValue)], GRPCEcho.bind, client)
            }
        }

        func oneWay(_ messages: Int, payload: [UInt8]) throws {
            try executor.run { [client] in
                let request = StreamingClientRequest(of: [UInt8].self) { writer in
                    for _ in 0..<messages { try await writer.write(payload) }
                }
                let counted = try await client.clientStreaming(
                    request: request, descriptor: GRPCEcho.count, serializer: Bytes(), deserializer: Bytes(),
                    options: .defaults, onResponse: { try $0.message })
                guard counted == Array(String(messages).utf8) else { throw BenchError.noAnswer }
            }
        }

        func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
            try executor.run { [client] in
                clock?.start()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for first in 0..<inFlight {
                        group.addTask {
                            var payload = payload
                            for _ in stride(from: first, to: questions, by: inFlight) {
                                payload = try await Self.ask(payload, GRPCEcho.answer, client)
                                clock?.tick()
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            }
        }

        private static func ask(
            _ payload: [UInt8], _ method: MethodDescriptor, _ client: GRPCClient<HTTP2ClientTransport.Posix>
        ) async throws -> [UInt8] {
            try await client.unary(
                request: ClientRequest(message: payload), descriptor: method, serializer: Bytes(),
                deserializer: Bytes(), options: .defaults, onResponse: { try $0.message })
        }
    }

    /// The end that answers.
    private struct GRPCEcho: RegistrableRPCService {
        static let answer = method("Answer")
        static let count = method("Count")
        static let bind = method("Bind")

        private static func method(_ name: String) -> MethodDescriptor {
            MethodDescriptor(fullyQualifiedService: "bench.Echo", method: name)
        }

        func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
            register(Self.answer, with: &router) { try await ServerRequest(stream: $0).message }
            register(Self.count, with: &router) { request in
                Array(String(try await request.messages.reduce(0) { count, _ in count + 1 }).utf8)
            }
            register(Self.bind, with: &router) { request in
                let payload = try await ServerRequest(stream: request).message
                Placement(rawValue: UInt32(payload[0]))?.bindFar()
                return []
            }
        }

        private func register<Transport: ServerTransport>(
            _ method: MethodDescriptor, with router: inout RPCRouter<Transport>,
            _ answer: @escaping @Sendable (StreamingServerRequest<[UInt8]>) async throws -> [UInt8]
        ) {
            router.registerHandler(forMethod: method, deserializer: Bytes(), serializer: Bytes()) { request, _ in
                StreamingServerResponse(single: ServerResponse(message: try await answer(request)))
            }
        }
    }

    private struct Bytes: MessageSerializer, MessageDeserializer {
        func serialize<Serialized: GRPCContiguousBytes>(_ message: [UInt8]) -> Serialized { Serialized(message) }

        func deserialize<Serialized: GRPCContiguousBytes>(_ bytes: Serialized) -> [UInt8] {
            bytes.withUnsafeBytes { Array($0) }
        }
    }

    /// Runs tasks, and those that they start, on the thread of an event loop.
    private final class LoopExecutor: TaskExecutor {
        private let loop: any EventLoop

        init(_ loop: any EventLoop) { self.loop = loop }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
        }

        func start(_ work: @escaping @Sendable () async throws -> Void) {
            Task(executorPreference: self) {
                do { try await work() } catch { fail(error) }
            }
        }

        func run(_ work: @escaping @Sendable () async throws -> Void) throws {
            let isOver = DispatchSemaphore(value: 0)
            start {
                try await work()
                isOver.signal()
            }
            try isOver.waitForAnswer()
        }
    }
#endif
