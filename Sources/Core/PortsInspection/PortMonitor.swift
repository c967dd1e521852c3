import DequeModule
import Ports
import RunLoopLocks
import RunLoops

/// The messages of a port as they pass. The library in the owner's process reports them:
///
///     let right = try await PortNameServer.shared.port(forName: "com.example.clock")
///     let monitor = try await PortMonitor(right)
///     for try await event in monitor { print(event.kind, event.id, event.size) }
///
/// A port that nobody monitors does no work for monitors. The owner reports up to about five thousand messages in a second,
/// and counts the others. The sequence ends with the port. The release of the monitor ends the work of the owner. One task
/// or thread takes the events. Only processes of the owner's user can monitor its ports.
public final class PortMonitor: AsyncSequence, Sendable {
    private struct State {
        var events: Deque<PortEvent> = []
        var lost = 0
        /// The events that were left out after the ``events``.
        var lostAfter = 0

        mutating func next() -> PortEvent? {
            let event = events.popFirst()
            if events.isEmpty { countLost() }
            return event
        }

        /// No sum overflows, whatever another process has counted.
        mutating func countLost() {
            lost = Swift.min(lost + lostAfter, BoundedCoding.mostCount)
            lostAfter = 0
        }
    }

    private let question: PendingQuestion
    private let state = Lock(State())

    private init(_ question: PendingQuestion) { self.question = question }

    private static func question(
        to right: MachPort.SendRight, _ filter: PortEvent.Filter, _ deadline: ContinuousClock.Instant?
    ) throws(PortError) -> PendingQuestion {
        try PortError.check("program", filter.program?.utf8.count ?? 0, in: 0...PortEvent.Filter.mostProgram)
        return try PendingQuestion(.monitor(filter), to: right, before: deadline)
    }

    /// Begins to monitor a port: returns when the owner has begun.
    /// - Parameters:
    ///   - right: A right to the port, as `PortNameServer.port(forName:before:)` gives.
    ///   - filter: The messages to report.
    ///   - deadline: The end of the wait for the owner.
    /// - Throws: `PortError`: `receiveTimedOut` when the owner does not answer, such as a stopped one; `busy` when the port
    ///   has sixteen monitors; `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public convenience init(
        _ right: MachPort.SendRight, filter: PortEvent.Filter = .init(),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) {
        self.init(try Self.question(to: right, filter, deadline))
        add(try question.firstAnswer())
    }

    /// Begins to monitor a port, suspending the task until the owner has begun.
    /// - Parameters:
    ///   - right: A right to the port, as `PortNameServer.port(forName:before:)` gives.
    ///   - filter: The messages to report.
    ///   - deadline: The end of the wait for the owner.
    /// - Throws: `PortError`: `receiveTimedOut` when the owner does not answer, such as a stopped one; `busy` when the port
    ///   has sixteen monitors; `isInvalid`, `becameInvalid`, `cannotConnect`…; `CancellationError`.
    public convenience nonisolated(nonsending) init(
        _ right: MachPort.SendRight, filter: PortEvent.Filter = .init(),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws {
        self.init(try Self.question(to: right, filter, deadline))
        add(try await question.firstAnswer())
    }

    /// The number of events that were left out, because more came than the owner reports, or than the monitor has taken. A
    /// message that passed unseen counts once.
    public var lostCount: Int { state.withLock { $0.lost } }

    /// Waits for the next event.
    /// - Returns: Nil when the port is gone.
    /// - Throws: `PortError`: `receiveTimedOut`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func next(before deadline: ContinuousClock.Instant? = nil) throws(PortError) -> PortEvent? {
        while true {
            if let event = state.withLock({ $0.next() }) { return event }
            do throws(PortError) { add(try question.next(before: deadline)) } catch .becameInvalid { return nil }
        }
    }

    /// Waits for the next event, suspending the task.
    /// - Returns: Nil when the port is gone.
    /// - Throws: `PortError`: `receiveTimedOut`…; `CancellationError`.
    public nonisolated(nonsending) func next(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> PortEvent? {
        while true {
            if let event = state.withLock({ $0.next() }) { return event }
            do { add(try await question.next(before: deadline)) } catch PortError.becameInvalid { return nil }
        }
    }

    /// The events, for `for try await`.
    public struct Iterator: AsyncIteratorProtocol, Sendable {
        let monitor: PortMonitor

        /// Suspends until there is an event.
        /// - Returns: Nil when the port is gone.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws -> PortEvent? { try await monitor.next() }
    }

    /// Starts to take events.
    public func makeAsyncIterator() -> Iterator { Iterator(monitor: self) }

    private func add(_ packet: PortEvents?) {
        guard let packet else { return }
        state.withLock { state in
            state.events.append(contentsOf: packet.events)
            state.lostAfter = Swift.min(state.lostAfter + packet.lost, BoundedCoding.mostCount)
            if state.events.isEmpty { state.countLost() }
        }
    }
}
