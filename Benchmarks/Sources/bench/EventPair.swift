import CBench
import Glibc

/// The floor under all of them: two threads, each with an eventfd in an epoll set of its own. The
/// sets tell of edges, so that nobody need read the counters: there is no cheaper wait on a set.
struct EventPair {
    private let near: (event: Int32, set: Int32)
    private let far: (event: Int32, set: Int32)

    private let placement: Placement

    init(_ placement: Placement) throws {
        self.placement = placement
        near = try Self.makeEnd()
        far = try Self.makeEnd()
    }

    private static func makeEnd() throws -> (event: Int32, set: Int32) {
        let event = cb_event()
        let set = cb_watch(event, true)
        guard event >= 0, set >= 0 else { throw BenchError.system("eventfd", errno: errno) }
        return (event, set)
    }

    func microsecondsATrip(_ trips: Int) throws -> Double {
        let echo = try PlainThread.start { [placement, near, far] in
            placement.bindFar()
            for _ in 0..<trips {
                _ = cb_wait(far.set, -1)
                Self.raise(near)
            }
        }
        defer { echo.join() }
        return try PlainThread.run { [placement, near, far] in
            placement.bindNear()
            return seconds {
                for _ in 0..<trips {
                    Self.raise(far)
                    _ = cb_wait(near.set, -1)
                }
            } / Double(trips) * 1e6
        }
    }

    private static func raise(_ end: (event: Int32, set: Int32)) {
        var one: UInt64 = 1
        _ = write(end.event, &one, 8)
    }

}
