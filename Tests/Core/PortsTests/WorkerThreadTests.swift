import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct WorkerThreadTests {
    @Test func `a started thread reports its check-in, and holds up nobody`() throws {
        let port = try MachPort()
        let (release, told) = (Latch(), Latch())
        let worker = try WorkerThread.start(name: "slow", port: port.sendRight) { checkIn in
            _ = release.wait(until: .patience)
            let mine = try MachPort { message in try? message.replyPort?.send(MachPort.Message(id: message.id + 1)) }
            _ = try checkIn.complete(with: mine)
            try mine.schedule(in: .current)
        }
        worker.onCheckIn { if case .success = $0 { told.open() } }
        #expect(throws: CheckInError.notCheckedIn(worker: "thread “slow”")) { try worker.port }
        release.open()
        #expect(try worker.checkIn(before: .patience) == worker.port)
        #expect(told.wait(until: .patience))
        try worker.port.send(MachPort.Message(id: 5, replyPort: port.sendRight))
        #expect(try port.receive(before: .patience).id == 6)
    }

    @Test func `a thread that is late is stopped, and refused`() throws {
        let port = try MachPort()
        let (release, outcome) = (Latch(), Shared<CheckInError?>(nil))
        let worker = try WorkerThread.start(name: "late", port: port.sendRight) { checkIn in
            _ = release.wait(until: .patience)
            do throws(CheckInError) {
                _ = try checkIn.complete(with: try checkingIn { () throws(PortError) in try MachPort() })
            } catch {
                outcome.withLock { $0 = error }
            }
        }
        #expect(throws: CheckInError.timedOut(worker: "thread “late”")) {
            _ = try worker.checkIn(before: .now + .milliseconds(20))
        }
        #expect(throws: CheckInError.timedOut(worker: "thread “late”")) { try worker.port }
        release.open()
        #expect(worker.thread.join(before: .patience))
        guard case .refused? = outcome.withLock({ $0 }) else {
            Issue.record("\(String(describing: outcome.withLock { $0 }))")
            return
        }
    }

    @Test func `a task launches a thread, and a cancelled launch stops it`() async throws {
        let port = try MachPort()
        let worker = try await WorkerThread.launch(port: port.sendRight) { checkIn in
            let mine = try MachPort { _ in }
            _ = try checkIn.complete(with: mine)
            try mine.schedule(in: .current)
        }
        #expect(try await worker.checkIn() == worker.port)
        let slow = try await WorkerThread.start(port: port.sendRight) { checkIn in
            _ = try checkIn.complete(with: MachPort())
        }
        let right = try await slow.checkIn(before: .patience)
        #expect(try slow.port == right)
        await #expect(throws: CheckInError.failed(worker: "thread “idle”", reason: "it returned without checking in")) {
            _ = try await WorkerThread.launch(name: "idle", port: port.sendRight) { _ in }
        }
        let (release, outcome) = (Latch(), Shared<String?>(nil))
        let launch = Task {
            try await WorkerThread.launch(port: port.sendRight, before: nil) { checkIn in
                _ = release.wait(until: .patience)
                let result = Result { try checkIn.complete(with: MachPort()) }
                outcome.withLock { $0 = "\(result)" }
            }
        }
        launch.cancel()
        await #expect(throws: CancellationError.self) { try await launch.value }
        release.open()
        // Cancelled before the thread was started, or after.
        let other = Latch()
        let started = Shared(false)
        let second = Task {
            try await WorkerThread.launch(port: port.sendRight, before: nil) { checkIn in
                started.withLock { $0 = true }
                _ = other.wait(until: .patience)
                let result = Result { try checkIn.complete(with: MachPort()) }
                outcome.withLock { $0 = "\(result)" }
            }
        }
        #expect(await waitUntil { started.withLock { $0 } })
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
        other.open()
        #expect(await waitUntil { outcome.withLock { $0?.contains("refused") } == true })
    }
}
