import RunLoopLocks

/// Runs the parts of a program, and restarts those that end, as the supervisors of Erlang's OTP do. A part is a pool, a
/// server, another supervisor, or any function that runs as long as the part lives.
///
///     func run(_ pool: WorkerPool, _ server: RequestServer) async throws {
///         let supervisor = Supervisor(.restForOne) {
///             Supervisor.Child(pool)
///             Supervisor.Child("server") { try await server.run() }
///         }
///         try await supervisor.run()
///     }
///
/// Children start in the order in which they are listed, and are stopped in the reverse order. To stop a child, the
/// supervisor cancels its task, and waits for the end of that: a child that does not notice the cancellation holds it up.
public final class Supervisor: Sendable {
    /// The children that are restarted when one has ended. The names and the meaning are OTP's.
    public enum Strategy: Sendable, Hashable {
        /// That one.
        case oneForOne
        /// All: the others are stopped before.
        case oneForAll
        /// That one and those that were started after it, which are stopped before.
        case restForOne
    }

    /// Whether a child that has ended is started again. The names and the meaning are OTP's.
    public enum Restart: Sendable, Hashable {
        /// Always.
        case permanent
        /// When it has thrown an error.
        case transient
        /// Never.
        case temporary
    }

    /// One part of a program.
    public struct Child: Sendable {
        let name: String
        let restart: Restart
        let run: @Sendable (_ isReady: @escaping @Sendable () -> Void) async throws -> Void

        /// Makes a child that counts as started at once.
        /// - Parameters:
        ///   - name: The name in errors and the log.
        ///   - restart: Whether it is started again.
        ///   - run: Runs as long as the child lives. Its task is cancelled to stop it.
        public init(
            _ name: String, restart: Restart = .permanent, run: @escaping @Sendable () async throws -> Void
        ) {
            self.init(name, restart: restart) { isReady in
                isReady()
                try await run()
            }
        }

        /// Makes a child that says when it has started. The next child starts then.
        /// - Parameters:
        ///   - name: The name in errors and the log.
        ///   - restart: Whether it is started again.
        ///   - run: Runs as long as the child lives, and calls the closure when it is ready. Its task is cancelled to stop
        ///     it.
        public init(
            _ name: String, restart: Restart = .permanent,
            whenReady run: @escaping @Sendable (_ isReady: @escaping @Sendable () -> Void) async throws -> Void
        ) {
            (self.name, self.restart, self.run) = (name, restart, run)
        }

        /// Makes a child of another supervisor.
        public init(_ name: String, _ supervisor: Supervisor, restart: Restart = .permanent) {
            self.init(name, restart: restart) { try await supervisor.run() }
        }
    }

    /// Lists children.
    @resultBuilder public enum Children {
        /// Puts the children together.
        public static func buildBlock(_ children: Child...) -> [Child] { children }
    }

    private let strategy: Strategy
    private let intensity: RestartIntensity
    private let children: [Child]
    private let isRunning = Lock(false)

    /// Makes a supervisor. Its children start when it runs.
    /// - Parameters:
    ///   - strategy: The children that are restarted when one has ended.
    ///   - intensity: The restarts that are too many: then ``run()`` throws. The default is OTP's, more than one in five
    ///     seconds.
    ///   - children: The children, in the order of their start.
    public init(
        _ strategy: Strategy = .oneForOne, intensity: RestartIntensity = RestartIntensity(most: 1, in: .seconds(5)),
        @Children children: () -> [Child]
    ) {
        (self.strategy, self.intensity, self.children) = (strategy, intensity, children())
    }

    /// Starts the children, and restarts those that end, until the calling task is cancelled or no child is left. Then it
    /// stops those that run, and returns when they have ended. A supervisor may run again then.
    /// - Throws: ``SupervisorError``: `failed` when the children have ended too often, `isRunning`.
    public func run() async throws(SupervisorError) {
        if isRunning.withLock({ exchange(&$0, with: true) }) { throw .isRunning }
        defer { isRunning.withLock { $0 = false } }
        var run = Run(children: children)
        var plan = SupervisorPlan(strategy, children.map(\.restart))
        var history = RestartHistory(intensity)
        var next = Array(children.indices)
        var reasons: [String]?
        while !children.isEmpty {
            for child in next where !Task.isCancelled { await run.start(child) }
            guard let end = await run.nextEnd(), !Task.isCancelled else { break }
            guard let steps = plan.ended(end.child, isFailure: end.error != nil) else {
                next = []
                if plan.running.isEmpty { break }
                continue
            }
            let reason = "\(children[end.child].name): \(end.error.map { "\($0)" } ?? "it has ended")"
            log.warning("supervisor restarts \(reason)")
            reasons = history.note(reason, at: .now)
            if reasons != nil { break }
            for child in steps.stops { await run.stop(child) }
            next = steps.starts
        }
        for child in children.indices.reversed() { await run.stop(child) }
        if let reasons { throw .failed(reasons: reasons) }
    }

    /// The children of one run of a supervisor, which its task alone uses.
    private struct Run {
        struct End: Sendable {
            let child: Int
            /// The number of the child's start.
            let number: Int
            let error: (any Error)?
        }

        let children: [Child]
        private var tasks: [Int: (number: Int, task: Task<Void, Never>)] = [:]
        private var lastNumber = 0
        private var ends: AsyncStream<End>.Iterator
        private let told: AsyncStream<End>.Continuation

        init(children: [Child]) {
            self.children = children
            let (stream, continuation) = AsyncStream.makeStream(of: End.self)
            (ends, told) = (stream.makeAsyncIterator(), continuation)
        }

        /// Returns when the child is ready or has ended.
        mutating func start(_ index: Int) async {
            let (child, told, ready) = (children[index], told, OneShot<Void>())
            lastNumber += 1
            let number = lastNumber
            let task = Task {
                var failure: (any Error)?
                do { try await child.run { ready.set(()) } } catch { failure = error }
                ready.set(())
                told.yield(End(child: index, number: number, error: failure))
            }
            tasks[index] = (number, task)
            _ = await ready.wait()
        }

        /// Returns when the child has ended.
        mutating func stop(_ index: Int) async {
            guard let (_, task) = tasks.removeValue(forKey: index) else { return }
            task.cancel()
            await task.value
        }

        /// The next end of a child that was not stopped; nil when the calling task is cancelled.
        mutating func nextEnd() async -> End? {
            while let end = await ends.next(isolation: nil) {
                guard tasks[end.child]?.number == end.number else { continue }
                tasks[end.child] = nil
                return end
            }
            return nil
        }
    }
}

/// The reason why a supervisor has ended.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum SupervisorError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The children have ended too often. These are the reasons of late.
    case failed(reasons: [String])
    /// The supervisor runs already.
    case isRunning

    /// A sentence with the cause.
    public var description: String {
        switch self {
        case .failed(let reasons): "what is supervised has ended too often: \(reasons.joined(separator: "; "))"
        case .isRunning: "the supervisor runs already"
        }
    }
}
