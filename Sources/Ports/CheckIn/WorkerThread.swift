import Glibc
import RunLoops

/// A thread with a loop, which has checked in with a port of its own.
public final class WorkerThread: Sendable {
    /// The thread and its loop.
    public let thread: RunLoopThread
    /// The right to send to the worker.
    public let port: MachPort.SendRight

    private init(_ thread: RunLoopThread, _ port: MachPort.SendRight) {
        self.thread = thread
        self.port = port
    }

    /// Starts a thread, and returns when the thread has checked in. A thread that is late is stopped.
    ///
    /// The body is called on the thread before its loop runs, checks in as at ``CheckIn``, and schedules the worker's
    /// port. In return, ``CheckIn/complete(with:before:)`` gives it `port`.
    /// - Throws: ``CheckInError``.
    @available(*, noasync, message: "it blocks its thread")
    public static func launch(
        name: String = "worker", port: MachPort.SendRight, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10),
        body: @escaping @Sendable (CheckIn) throws -> Void
    ) throws(CheckInError) -> WorkerThread {
        try checkingIn(Fork.check)
        let desk = nameServer.runtime.checkInDesk
        let worker = "thread “\(name)”"
        let expectation = CheckInExpectation(worker, pid: getpid(), parent: port)
        let checkIn = try checkingIn { () throws(PortError) in try desk.expect(expectation, nameServer) }
        defer { desk.forget(checkIn) }
        let thread: RunLoopThread
        do {
            thread = try RunLoopThread(name: name) { _ in
                var reason = "it returned without checking in"
                do { try body(checkIn) } catch { reason = "\(error)" }
                expectation.fail(.failed(worker: worker, reason: reason))
            }
        } catch {
            throw .notLaunched(reason: "\(error)")
        }
        // The release of the thread stops it.
        return WorkerThread(thread, try expectation.wait(before: MonotonicInstant(deadline)))
    }
}
