import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Tasks whose executor runs them at once, on the thread that wakes them.
@Suite(.ownThread) struct InlineExecutorTests {
    private final class Inline: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) {
            UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    private let executor = Inline()

    /// A task that waits for a message, and what it got.
    private func taker(of port: MachPort) -> Shared<String?> {
        let outcome = Shared<String?>(nil)
        Task(executorPreference: executor) {
            let text: String
            do {
                text = "\(try await port.receive(before: .distantFuture).id)"
            } catch {
                text = kind(error as? PortError)
            }
            outcome.withLock { $0 = text }
        }
        return outcome
    }

    private func expect(
        _ outcome: Shared<String?>, _ text: String, after body: @escaping @Sendable () throws -> Void
    ) {
        #expect(Helper { errorKind(body) }.value(before: .now + .seconds(20)) == "none", "it hangs")
        #expect(waitUntil { outcome.withLock { $0 } != nil })
        #expect(outcome.withLock { $0 } == text)
    }

    @Test func `a task that waits for a message is woken under no lock`() throws {
        let port = try MachPort()
        let outcome = taker(of: port)
        // Each wakes whoever waits.
        expect(outcome, "7") {
            port.setHandler(nil)
            port.delegate = nil
            port.setHandler { _ in }
            port.setHandler(nil)
            try port.sendRight.send(MachPort.Message(id: 7))
        }
        expect(taker(of: port), "becameInvalid") { port.invalidate() }
    }

    @Test func `nor when a loop leaves the message to it`() throws {
        let port = try MachPort()
        let thread = try served(port)
        for number in 1...20 as ClosedRange<UInt32> {
            let outcome = taker(of: port)
            expect(outcome, "\(number)") { try port.sendRight.send(MachPort.Message(id: number)) }
        }
        thread.stop()
    }

    @Test func `a task that waits for room is woken under no lock`() throws {
        let port = try MachPort(queueLimit: 1, byteLimit: 100)
        let right = port.sendRight
        while (try? right.send(MachPort.Message(), before: .distantPast)) != nil {}
        let outcomes = (1...3 as ClosedRange<UInt32>).map { number in
            let outcome = Shared<String?>(nil)
            Task(executorPreference: executor) {
                var failure: PortError?
                do { try await right.send(MachPort.Message(id: number)) } catch { failure = error as? PortError }
                let text = kind(failure)
                outcome.withLock { $0 = text }
            }
            return outcome
        }
        #expect(waitUntil { right.channel.waiterCount == 3 })
        expect(outcomes[0], "none") { while try port.receive(before: .patience).id != 1 {} }
        // There may have been room for the last one by now.
        #expect(Helper { errorKind { port.invalidate() } }.value(before: .now + .seconds(20)) == "none", "it hangs")
        #expect(waitUntil { outcomes[2].withLock { $0 } != nil })
        #expect(["none", "becameInvalid"].contains(outcomes[2].withLock { $0 }))
    }
}
