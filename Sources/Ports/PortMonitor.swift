import DequeModule
import RunLoopLocks
import RunLoops

/// The messages of a port as they pass, as the library in the owner's process tells of them:
///
///     let right = try await PortNameServer.shared.port(forName: "com.example.clock")
///     let monitor = try await PortMonitor(right)
///     for try await event in monitor { print(event.kind, event.id, event.size) }
///
/// A port that nobody monitors does no work for monitors; one that is monitored tells of up to some five thousand messages
/// in a second, and counts the others. The sequence ends with the port. The release of the monitor ends the work of the
/// owner. One task or thread takes the events. Only processes of the owner's user can monitor its ports.
public final class PortMonitor: AsyncSequence, Sendable {
    private struct State {
        var events: Deque<PortEvent> = []
        var lost = 0
        /// Those that passed after the ``events``.
        var lostAfter = 0

        mutating func next() -> PortEvent? {
            let event = events.popFirst()
            if events.isEmpty { tellLost() }
            return event
        }

        /// No sum overflows, whatever another process has counted.
        mutating func tellLost() { lost = Swift.min(lost + exchange(&lostAfter, with: 0), FieldReader.mostCount) }
    }

    private let inspection: Inspection
    private let state = Lock(State())

    private init(_ inspection: Inspection) { self.inspection = inspection }

    private static func inspection(
        of right: MachPort.SendRight, _ filter: PortEvent.Filter, _ deadline: ContinuousClock.Instant?
    ) throws(PortError) -> Inspection {
        try PortError.check("program", filter.program?.utf8.count ?? 0, in: 0...PortEvent.Filter.mostProgram)
        return try Inspection(of: right.channel, .monitor, before: deadline, filter.write)
    }

    /// Begins to monitor a port: returns when the owner has begun.
    /// - Parameters:
    ///   - right: A right to the port, as `PortNameServer.port(forName:before:)` gives.
    ///   - filter: Which messages to tell of.
    ///   - deadline: The end of the wait for the owner.
    /// - Throws: ``PortError``, as `MachPort.SendRight.service(observing:before:)`, and `busy` when the port has sixteen
    ///   monitors.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public convenience init(
        _ right: MachPort.SendRight, filter: PortEvent.Filter = .init(),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) {
        self.init(try Self.inspection(of: right, filter, deadline))
        add(try inspection.answer())
    }

    /// Begins to monitor a port as the form that blocks does, suspending the task. Throws also `CancellationError`.
    public convenience nonisolated(nonsending) init(
        _ right: MachPort.SendRight, filter: PortEvent.Filter = .init(),
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws {
        self.init(try Self.inspection(of: right, filter, deadline))
        add(try await inspection.answer())
    }

    /// The events that were left out: more came than the owner tells of, or than the monitor has taken. A message that
    /// passed unseen counts once.
    public var lostCount: Int { state.withLock { $0.lost } }

    /// Waits for the next event; nil when the port is gone.
    /// - Throws: ``PortError``: `receiveTimedOut`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func next(before deadline: ContinuousClock.Instant? = nil) throws(PortError) -> PortEvent? {
        let deadline = MonotonicInstant(deadline)
        while true {
            if let event = state.withLock({ $0.next() }) { return event }
            do throws(PortError) { add(try inspection.next(before: deadline).bytes) } catch .becameInvalid {
                return nil
            }
        }
    }

    /// Waits for the next event as the form that blocks does, suspending the task. Throws also `CancellationError`.
    public nonisolated(nonsending) func next(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> PortEvent? {
        let deadline = MonotonicInstant(deadline)
        while true {
            if let event = state.withLock({ $0.next() }) { return event }
            do { add(try await inspection.next(before: deadline).bytes) } catch PortError.becameInvalid { return nil }
        }
    }

    /// The events, for `for try await`.
    public struct Iterator: AsyncIteratorProtocol, Sendable {
        let monitor: PortMonitor

        /// Suspends until there is an event; nil when the port is gone.
        public mutating func next() async throws -> PortEvent? { try await monitor.next() }

        /// Suspends until there is an event; nil when the port is gone.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> PortEvent? {
            try await monitor.next()
        }
    }

    /// Starts to take events.
    public func makeAsyncIterator() -> Iterator { Iterator(monitor: self) }

    private func add(_ bytes: [UInt8]) {
        let packet = PortEvents(bytes: bytes)
        state.withLock { state in
            state.events.append(contentsOf: packet.events)
            state.lostAfter = Swift.min(state.lostAfter + packet.lost, FieldReader.mostCount)
            if state.events.isEmpty { state.tellLost() }
        }
    }
}
