import Dispatch
import Ports
import TypedPorts
import XPC

/// Requests of XPC sessions beside typed requests with the same value.
struct XPCPeer {
    static let role = "xpc"

    struct Point: PortRequest {
        typealias Reply = Point
        var id: Int32
        var name: String
        var value: Double
    }

    private static let point = Point(id: 7, name: "a port", value: 2.5)

    /// Starts both servers.
    private static func run(_ name: String) throws {
        let typed = try RequestServer(name: "\(name) xpc typed")
        typed.handle(Point.self) { point in point }
        Task { try await typed.run() }
        _ = try XPCListener(service: "\(name) xpc") { request in request.accept { (point: Point) in point } }
    }

    /// The child's side; does not return.
    static func serve(_ name: String) throws {
        try run(name)
        dispatchMain()
    }

    private let client: RequestClient
    private let session: XPCSession
    private let child: Child?

    private init(_ name: String, child: Child?) throws {
        self.child = child
        _ = try PortNameServer.shared.waitForPort(forName: "\(name) xpc", before: .now + .seconds(10))
        client = RequestClient("\(name) xpc typed")
        session = try XPCSession(machService: "\(name) xpc")
    }

    static func inThreads() throws -> XPCPeer {
        try run("threads")
        return try XPCPeer("threads", child: nil)
    }

    static func inProcesses() throws -> XPCPeer { try XPCPeer("processes", child: try Child("\(role) processes")) }

    private static let count = 2000

    private func microseconds(_ body: () throws -> Void) rethrows -> Double {
        let begin = ContinuousClock.now
        try body()
        return begin.duration(to: .now) / .microseconds(Self.count)
    }

    /// Waits in a task, each request after the reply to the one before.
    private func typedTrip() -> Double {
        microseconds {
            let isOver = DispatchSemaphore(value: 0)
            Task.detached { [client] in
                do { for _ in 0..<Self.count { _ = try await client.request(Self.point) } } catch { fail(error) }
                isOver.signal()
            }
            isOver.wait()
        }
    }

    /// Blocks a thread for each reply.
    private func syncTrip() throws -> Double {
        try microseconds { for _ in 0..<Self.count { let _: Point = try session.sendSync(Self.point) } }
    }

    /// The handler of each reply sends the next request.
    private func handlerTrip() -> Double {
        microseconds {
            let isOver = DispatchSemaphore(value: 0)
            Self.ask(session, Self.count, isOver)
            isOver.wait()
        }
    }

    private static func ask(_ session: XPCSession, _ count: Int, _ isOver: DispatchSemaphore) {
        if count == 0 { return _ = isOver.signal() }
        do {
            try session.send(point) { (reply: Result<Point, any Error>) in
                if case .failure(let error) = reply { fail(error) }
                ask(session, count - 1, isOver)
            }
        } catch { fail(error) }
    }

    static var rows: [Row] {
        let peers = [
            ("two tasks", Shared { try XPCPeer.inThreads() }),
            ("two processes", Shared { try XPCPeer.inProcesses() }),
        ]
        return peers.flatMap { part, peer in
            [
                Row(part: part, work: "XPC session, sendSync") {
                    let peer = try peer.value
                    return Contest(
                        .microseconds, ours: { try peer.syncTrip() },
                        Contestant("typed request", .atMost(1.25)) { peer.typedTrip() })
                },
                Row(part: part, work: "XPC session, reply handler") {
                    let peer = try peer.value
                    return Contest(
                        .microseconds, ours: { peer.handlerTrip() },
                        Contestant("typed request", .atMost(1.25)) { peer.typedTrip() })
                },
            ]
        }
    }
}
