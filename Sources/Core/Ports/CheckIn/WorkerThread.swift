import Glibc
import RunLoops

/// A thread with a loop. It checks in with a port of its own, and gets the right to a port of the launcher.
///
/// The release of the object stops the thread.
public final class WorkerThread: Sendable {
    /// The thread and its loop.
    public let thread: RunLoopThread

    private let expectation: CheckInExpectation
    private let housekeeping: Housekeeping

    /// Starts a thread, and blocks until the thread has checked in. A thread that is late is stopped.
    /// - Parameters:
    ///   - name: The name of the thread.
    ///   - port: The right that `CheckIn.complete(with:before:)` returns to the worker. Nil for a right that takes no
    ///     requests.
    ///   - nameServer: The name server of the ports for the check-in.
    ///   - deadline: The end of the wait for the check-in.
    ///   - body: Called on the thread before its loop runs. It checks in as ``CheckIn`` shows, and schedules the
    ///     worker's port.
    /// - Throws: ``CheckInError``.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public static func launch(
        name: String = "worker", port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10),
        body: @escaping @Sendable (CheckIn) throws -> Void
    ) throws(CheckInError) -> WorkerThread {
        let worker = try start(name: name, port: port, nameServer: nameServer, body: body)
        _ = try worker.checkIn(before: deadline)
        return worker
    }

    /// Starts a thread, and suspends the task until the thread has checked in. A thread that is late is stopped.
    /// - Throws: ``CheckInError``. `CancellationError`: the thread is stopped when the body has returned, and its
    ///   check-in is refused.
    public nonisolated(nonsending) static func launch(
        name: String = "worker", port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10),
        body: @escaping @Sendable (CheckIn) throws -> Void
    ) async throws -> WorkerThread {
        try Task.checkCancellation()
        let worker = try await start(name: name, port: port, nameServer: nameServer, body: body)
        do {
            _ = try await worker.checkIn(before: deadline)
            return worker
        } catch {
            worker.expectation.fail(.failed(worker: worker.expectation.worker, reason: "\(error)"))
            throw error
        }
    }

    /// Starts a thread, and blocks until its loop exists. `checkIn(before:)` and ``onCheckIn(_:)`` report the check-in.
    /// The parameters are those of `launch(name:port:nameServer:before:body:)`.
    /// - Throws: ``CheckInError``: `notLaunched`, or `port`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public static func start(
        name: String = "worker", port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared,
        body: @escaping @Sendable (CheckIn) throws -> Void
    ) throws(CheckInError) -> WorkerThread {
        let start = try Start(name, port, nameServer, body)
        do throws(RunLoopError) {
            return WorkerThread(try RunLoopThread(name: name, body: start.run), start)
        } catch {
            throw start.failed(error)
        }
    }

    /// Starts a thread, and suspends the task until its loop exists. A cancellation changes nothing.
    /// - Throws: ``CheckInError``: `notLaunched`, or `port`.
    public nonisolated(nonsending) static func start(
        name: String = "worker", port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared,
        body: @escaping @Sendable (CheckIn) throws -> Void
    ) async throws -> WorkerThread {
        let start = try Start(name, port, nameServer, body)
        do throws(RunLoopError) {
            return WorkerThread(try await RunLoopThread(name: name, body: start.run), start)
        } catch {
            throw start.failed(error)
        }
    }

    /// The expectation and the body of a thread.
    private struct Start {
        let expectation: CheckInExpectation
        let housekeeping: Housekeeping
        let run: @Sendable (ThreadRunLoop) -> Void

        init(
            _ name: String, _ port: MachPort.SendRight?, _ nameServer: PortNameServer,
            _ body: @escaping @Sendable (CheckIn) throws -> Void
        ) throws(CheckInError) {
            try checkingIn(Fork.check)
            let (desk, worker) = (nameServer.runtime.checkInDesk, "thread “\(name)”")
            let (expectation, checkIn) = try checkingIn { () throws(PortError) in
                let parent = try desk.parent(port, nameServer)
                let expectation = CheckInExpectation(worker, pid: getpid(), parent: parent)
                return (expectation, try desk.expect(expectation, nameServer))
            }
            expectation.outcome.whenSet { _ in desk.forget(checkIn) }
            run = { _ in
                var reason = "it returned without checking in"
                do { try body(checkIn) } catch { reason = "\(error)" }
                expectation.fail(.failed(worker: worker, reason: reason))
            }
            self.expectation = expectation
            housekeeping = nameServer.runtime.housekeeping
        }

        func failed(_ error: RunLoopError) -> CheckInError {
            let error = CheckInError.notLaunched(reason: "\(error)")
            expectation.fail(error)
            return error
        }
    }

    private init(_ thread: RunLoopThread, _ start: Start) {
        self.thread = thread
        (expectation, housekeeping) = (start.expectation, start.housekeeping)
        expectation.outcome.whenSet { [weak thread] outcome in if case .failure = outcome { thread?.stop() } }
    }

    /// The right to send to the worker.
    /// - Throws: ``CheckInError``, also before the check-in.
    public var port: MachPort.SendRight { get throws(CheckInError) { try expectation.port } }

    /// Blocks until the worker has checked in. A thread that is late is stopped.
    /// - Returns: The right to send to the worker.
    /// - Throws: ``CheckInError``: `timedOut`, `failed` with the body's error.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func checkIn(before deadline: ContinuousClock.Instant? = .now + .seconds(10)) throws(CheckInError)
        -> MachPort.SendRight
    {
        try expectation.wait(before: MonotonicInstant(deadline))
    }

    /// Suspends the task until the worker has checked in. A thread that is late is stopped.
    /// - Returns: The right to send to the worker.
    /// - Throws: ``CheckInError``: `timedOut`, `failed` with the body's error. `CancellationError`: the worker goes on.
    public nonisolated(nonsending) func checkIn(
        before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) async throws -> MachPort.SendRight {
        try await expectation.wait(before: MonotonicInstant(deadline), on: housekeeping)
    }

    /// Calls a handler once, when the worker has checked in or has failed, or at once when that is known. The handler
    /// runs on a thread of the library or on the worker's, and must not block it.
    public func onCheckIn(_ handler: @escaping @Sendable (Result<MachPort.SendRight, CheckInError>) -> Void) {
        expectation.outcome.whenSet(handler)
    }
}
