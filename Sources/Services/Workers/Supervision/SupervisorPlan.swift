/// The decisions of a supervisor about children that have ended, as a value.
struct SupervisorPlan {
    /// The children to stop, in this order, and then those to start, in this order.
    struct Steps: Equatable {
        var stops: [Int] = []
        var starts: [Int] = []
    }

    let strategy: Supervisor.Strategy
    let restarts: [Supervisor.Restart]
    /// The children that run, or are about to.
    private(set) var running: Set<Int>

    init(_ strategy: Supervisor.Strategy, _ restarts: [Supervisor.Restart]) {
        (self.strategy, self.restarts) = (strategy, restarts)
        running = Set(restarts.indices)
    }

    /// A child has ended by itself.
    /// - Parameter isFailure: Whether it has thrown an error.
    /// - Returns: Nil when it is not to be restarted.
    mutating func ended(_ child: Int, isFailure: Bool) -> Steps? {
        running.remove(child)
        switch restarts[child] {
        case .temporary: return nil
        case .transient where !isFailure: return nil
        case .transient, .permanent: break
        }
        let affected =
            switch strategy {
            case .oneForOne: [child]
            case .oneForAll: Array(restarts.indices)
            case .restForOne: Array(child..<restarts.count)
            }
        let stops = affected.filter(running.contains)
        // A temporary child is stopped with the others, and not started again; and one that has ended in order stays so.
        let starts = affected.filter { $0 == child || running.contains($0) && restarts[$0] != .temporary }
        running.subtract(stops)
        running.formUnion(starts)
        return Steps(stops: stops.reversed(), starts: starts)
    }
}
