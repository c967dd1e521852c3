import Dispatch
import Ports
import RunLoops
import TypedPorts

/// Typed requests and streams beside the same bytes without types. All ends are tasks but the raw messages' receiver.
struct TypedPeer {
    static let role = "typed"

    struct Point: PortRequest {
        typealias Reply = Point
        var id: Int32
        var name: String
        var value: Double
    }

    struct Points: PortStreamRequest {
        typealias Element = Point
        var count: Int
    }

    /// Asks for a number of raw messages, each with the bytes of a point.
    struct Flood: PortRequest {
        typealias Reply = EmptyReply
        var count: Int
        var to: MachPort.SendRight
    }

    private static let point = Point(id: 7, name: "a port", value: 2.5)
    private static let coder = CBORCoder()
    private static let echoID: UInt32 = 1

    private static func pointBytes() throws -> [UInt8] {
        var (bytes, attachments) = ([] as [UInt8], Attachments())
        try coder.encode(point, into: &bytes, attachments: &attachments)
        return bytes
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

    // MARK: The server

    private static func server(_ name: String) throws -> (typed: RequestServer, raw: LocalMessagePort) {
        let typed = try RequestServer(name: name)
        typed.handle(Point.self) { point in point }
        typed.handle(Points.self) { points in Copies(count: points.count) }
        let bytes = try pointBytes()
        typed.handle(Flood.self) { flood in
            for _ in 0..<flood.count { try await flood.to.send(MachPort.Message([.bytes(bytes)])) }
            return EmptyReply()
        }
        return (typed, try LocalMessagePort(name: "\(name) raw"))
    }

    private static func run(_ server: (typed: RequestServer, raw: LocalMessagePort)) {
        Task { try await server.typed.run() }
        Task { try await server.raw.serve { $0.data } }
    }

    /// The child's side; does not return.
    static func serve(_ name: String) throws {
        let server = try server(name)
        run(server)
        dispatchMain()
    }

    // MARK: The client

    private let client: RequestClient
    private let raw: RemoteMessagePort
    private let thread: RunLoopThread
    private let child: Child?

    private init(_ name: String, child: Child?) throws {
        self.child = child
        client = RequestClient(name)
        raw = RemoteMessagePort(
            try PortNameServer.shared.waitForPort(forName: "\(name) raw", before: .now + .seconds(10)))
        thread = try RunLoopThread(name: "raw receiver")
    }

    static func inThreads() throws -> TypedPeer {
        run(try server("threads"))
        return try TypedPeer("threads", child: nil)
    }

    static func inProcesses() throws -> TypedPeer {
        try TypedPeer("processes", child: try Child("\(role) processes"))
    }

    private func wait(_ body: @escaping @Sendable () async throws -> Void) throws {
        let isOver = DispatchSemaphore(value: 0)
        Task.detached {
            do { try await body() } catch { fail(error) }
            isOver.signal()
        }
        isOver.wait()
    }

    private func microseconds(_ count: Int, _ body: @escaping @Sendable () async throws -> Void) throws -> Double {
        let begin = ContinuousClock.now
        try wait { for _ in 0..<count { try await body() } }
        return begin.duration(to: .now) / .microseconds(count)
    }

    private func typedTrip() throws -> Double {
        try microseconds(2000) { [client] in _ = try await client.request(Self.point) }
    }

    private func rawTrip() throws -> Double {
        let bytes = try Self.pointBytes()
        return try microseconds(2000) { [raw] in _ = try await raw.request(id: Self.echoID, bytes) }
    }

    private static let elements = 200_000

    private func rate(_ body: () throws -> Void) rethrows -> Double {
        let begin = ContinuousClock.now
        try body()
        return Double(Self.elements) / (begin.duration(to: .now) / .seconds(1))
    }

    private func stream() throws -> Double {
        try rate {
            try wait { [client] in
                var count = 0
                for try await point in client.stream(Points(count: Self.elements)) where point.id == 7 { count += 1 }
                guard count == Self.elements else { throw BenchError.noAnswer }
            }
        }
    }

    /// - Parameter inLoop: Whether a loop's handler takes the messages, and not a task.
    private func flood(inLoop: Bool) throws -> Double {
        try rate {
            let port = try MachPort(queueLimit: Int(queueLimit))
            let right = port.sendRight
            let isOver = DispatchSemaphore(value: 0)
            if inLoop {
                let count = Count()
                port.setHandler { _ in count.count() }
                count.expect(Self.elements)
                try port.schedule(in: thread.loop)
                try wait { [client] in
                    _ = try await client.request(Flood(count: Self.elements, to: right), timeout: .seconds(60))
                }
                try count.isOver.waitForAnswer()
            } else {
                Task {
                    var left = Self.elements
                    for await _ in port.messages {
                        left -= 1
                        if left == 0 { break }
                    }
                    isOver.signal()
                }
                try wait { [client] in
                    _ = try await client.request(Flood(count: Self.elements, to: right), timeout: .seconds(60))
                }
                isOver.wait()
            }
            port.invalidate()
        }
    }

    static var rows: [Row] {
        let peers = [
            ("two tasks", Shared { try TypedPeer.inThreads() }),
            ("two processes", Shared { try TypedPeer.inProcesses() }),
        ]
        return peers.flatMap { part, peer in
            [
                Row(part: part, work: "typed request and reply") {
                    let peer = try peer.value
                    return Contest(
                        .microseconds, ours: { try peer.typedTrip() },
                        Contestant("bytes without types", .atMost(1.5)) { try peer.rawTrip() })
                },
                Row(part: part, work: "typed stream, one way") {
                    let peer = try peer.value
                    return Contest(
                        .messagesASecond, ours: { try peer.stream() },
                        Contestant("raw messages, tasks", .atLeast(0.5)) { try peer.flood(inLoop: false) },
                        Contestant("raw messages, to a loop", .atLeast(0.5)) { try peer.flood(inLoop: true) })
                },
            ]
        }
    }
}
