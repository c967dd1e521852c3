#if GRPC && NATS_PEER
    import Dispatch
    import GRPCCore
    import GRPCNIOTransportHTTP2Posix
    import Glibc
    import TypedPorts

    /// The typed requests and streams of ``NATSPeer`` by grpc-swift over TCP on loopback, with the same coder in place of
    /// protobuf. The tasks run in the pool of all tasks, as ours do.
    final class GRPCTypedPeer: Sendable {
        static let role = "grpc-swift-typed"
        static let name = "grpc-swift, TCP"

        private let client: GRPCClient<HTTP2ClientTransport.Posix>
        private let child: Child
        /// The child may listen a little later.
        private static let options: CallOptions = {
            var options = CallOptions.defaults
            options.waitForReady = true
            return options
        }()

        init() throws {
            let port = 40_000 + Int(getpid()) % 20_000
            child = try Child("\(Self.role) \(port)")
            let transport = try HTTP2ClientTransport.Posix(
                target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext,
                config: .defaults { $0.backoff.initial = .milliseconds(10) })
            client = GRPCClient(transport: transport)
            Task { [client] in
                do { try await client.runConnections() } catch { fail(error) }
            }
        }

        /// The child's side; does not return.
        static func serve(_ port: String) throws {
            let transport = HTTP2ServerTransport.Posix(
                address: .ipv4(host: "127.0.0.1", port: Int(port) ?? 0), transportSecurity: .plaintext)
            let server = GRPCServer(transport: transport, services: [GRPCPoints()])
            Task {
                do { try await server.serve() } catch { fail(error) }
            }
            dispatchMain()
        }

        func request(_ point: NATSPeer.Point) async throws -> NATSPeer.Point {
            try await client.unary(
                request: ClientRequest(message: point), descriptor: GRPCPoints.echo, serializer: Coding(),
                deserializer: Coding<NATSPeer.Point>(), options: Self.options, onResponse: { try $0.message })
        }

        /// - Returns: The number of elements.
        func stream(_ points: NATSPeer.Points) async throws -> Int {
            try await client.serverStreaming(
                request: ClientRequest(message: points), descriptor: GRPCPoints.points, serializer: Coding(),
                deserializer: Coding<NATSPeer.Point>(), options: Self.options,
                onResponse: { response in
                    var count = 0
                    for try await point in response.messages where point.id == 7 { count += 1 }
                    return count
                })
        }
    }

    private struct GRPCPoints: RegistrableRPCService {
        static let echo = MethodDescriptor(fullyQualifiedService: "bench.Points", method: "Echo")
        static let points = MethodDescriptor(fullyQualifiedService: "bench.Points", method: "Points")

        func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
            router.registerHandler(
                forMethod: Self.echo, deserializer: Coding<NATSPeer.Point>(), serializer: Coding<NATSPeer.Point>()
            ) { request, _ in
                StreamingServerResponse(
                    single: ServerResponse(message: try await ServerRequest(stream: request).message))
            }
            router.registerHandler(
                forMethod: Self.points, deserializer: Coding<NATSPeer.Points>(), serializer: Coding<NATSPeer.Point>()
            ) { request, _ in
                let points = try await ServerRequest(stream: request).message
                return StreamingServerResponse { writer in
                    for _ in 0..<points.count { try await writer.write(NATSPeer.point) }
                    return [:]
                }
            }
        }
    }

    private struct Coding<Value: Codable & Sendable>: MessageSerializer, MessageDeserializer {
        func serialize<Serialized: GRPCContiguousBytes>(_ value: Value) throws -> Serialized {
            var (bytes, attachments) = ([] as [UInt8], Attachments())
            try CBORCoder().encode(value, into: &bytes, attachments: &attachments)
            return Serialized(bytes)
        }

        func deserialize<Serialized: GRPCContiguousBytes>(_ bytes: Serialized) throws -> Value {
            try bytes.withUnsafeBytes {
                try CBORCoder().decode(Value.self, from: Array($0).span.bytes, attachments: Attachments())
            }
        }
    }
#endif

#if NATS_PEER
    /// The contestants by grpc-swift in the rows of typed requests and streams through NATS: none where it is missing.
    struct GRPCRivals: Sendable {
        #if GRPC
            private let peer = Shared { try GRPCTypedPeer() }

            var trip: [Contestant] {
                [
                    Contestant(GRPCTypedPeer.name) {
                        let peer = try peer.value
                        let begin = ContinuousClock.now
                        try NATSPeer.wait { for _ in 0..<NATSPeer.trips { _ = try await peer.request(NATSPeer.point) } }
                        return begin.duration(to: .now) / .microseconds(NATSPeer.trips)
                    }
                ]
            }

            var stream: [Contestant] {
                [
                    Contestant(GRPCTypedPeer.name) {
                        let (peer, points) = (try peer.value, NATSPeer.Points(count: NATSPeer.elements))
                        let begin = ContinuousClock.now
                        let count = try NATSPeer.wait { try await peer.stream(points) }
                        guard count == NATSPeer.elements else { throw BenchError.noAnswer }
                        return Double(count) / (begin.duration(to: .now) / .seconds(1))
                    }
                ]
            }
        #else
            var trip: [Contestant] { [] }
            var stream: [Contestant] { [] }
        #endif
    }
#endif
