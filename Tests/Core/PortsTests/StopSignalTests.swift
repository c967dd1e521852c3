import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// The program of the page "Ending a program", in a process of its own.
@Suite(.ownThread) struct StopSignalTests {
    let sandbox = Sandbox()

    @Test func `a program that is asked to stop answers what it has taken, and refuses the rest at once`() async throws
    {
        let child = Child(["\(Child.folder)/EndingHelper"], environment: ["PORTS_DIRECTORY": sandbox.path])
        let right = try await sandbox.names.waitForPort(forName: "com.example.server", before: .patience)
        let remote = RemoteMessagePort(right)
        let outcomes = Shared<[PortError?]>([])
        @Sendable func ask(_ number: UInt8) async {
            do {
                let reply = try await remote.request(id: 1, [number], timeout: .seconds(60))
                #expect(reply == [number])
                outcomes.withLock { $0.append(nil) }
            } catch {
                outcomes.withLock { $0.append(error as? PortError) }
            }
        }
        let asking = Task {
            await withTaskGroup { group in
                for number in 0..<300 { group.addTask { await ask(UInt8(number % 256)) } }
            }
        }
        // All handlers that may run do, and the other requests wait.
        #expect(await waitUntil { onThread { (try? right.statistics().received) == 200 } })
        child.signal(SIGTERM)
        #expect(await waitUntil { outcomes.withLock { $0.count } == 100 })
        await ask(0)
        #expect(outcomes.withLock { $0 } == Array(repeating: .refused(port: right.identity), count: 101))
        #expect(child.isRunning)
        child.signal(SIGUSR1)
        await asking.value
        #expect(outcomes.withLock { $0.count { $0 == nil } } == 200)
        #expect(await waitUntil { !child.isRunning })
        #expect(child.wait() == 0)
        // Before its end is told, a request is sent, and then refused.
        #expect(await waitUntil { !right.isValid })
        await #expect(throws: PortError.isInvalid(port: right.identity)) { try await remote.request(id: 1) }
    }
}
