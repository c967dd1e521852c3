import Glibc
import OwnThread
import Ports
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import TypedPorts

/// Workers, threads and processes, whose servers check in.
@Suite(.ownThread) struct CheckInTests {
    private let folder = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: folder.path) }

    /// The request of `Examples/Workers`.
    struct CountPrimes: PortRequest {
        typealias Reply = Int
        static let requestName = "CountPrimes"
        var below: Int
    }

    struct Relay: PortRequest {
        typealias Reply = Int
        var number: Int
    }

    private static let program = WorkerProcess.Configuration("\(Child.folder)/workers", ["worker"])

    @Test func `a worker thread and its launcher ask each other`() async throws {
        let server = try RequestServer(nameServer: names)
        server.handle(Relay.self) { $0.number * 2 }
        let running = Task { try await server.run() }
        let workers = Shared<[RequestServer]>([])
        let worker = try await WorkerThread.launch(port: server.sendRight, nameServer: names) { [names] checkIn in
            let own = try RequestServer(nameServer: names)
            workers.withLock { $0.append(own) }
            let parent = RequestClient(try checkIn.complete(with: own))
            own.handle(Relay.self) { try await parent.request(Relay(number: $0.number + 1)) }
            Task { try await own.run() }
        }
        #expect(try await worker.client().request(Relay(number: 20)) == 42)
        for own in workers.withLock({ $0 }) { await own.finish() }
        await server.finish()
        try await running.value
    }

    @Test func `a launcher without a port gets requests refused, and its end is known`() async throws {
        let worker = try await WorkerThread.launch(nameServer: names) { [names] checkIn in
            let own = try RequestServer(nameServer: names)
            let parent = try checkIn.complete(with: own)
            own.handle(Relay.self) { relay in
                guard parent.isValid else { return -1 }
                do { return try await RequestClient(parent).request(relay) } catch PortError.refused { return 0 }
            }
            Task { try await own.run() }
        }
        let client = try worker.client()
        #expect(try await client.request(Relay(number: 20)) == 0)
    }

    @Test func `a check-in that fails tells so`() async throws {
        await #expect(throws: CheckInError.failed(worker: "thread “idle”", reason: "it returned without checking in")) {
            _ = try await WorkerThread.launch(name: "idle", nameServer: names) { _ in }
        }
        await #expect(throws: CheckInError.died(worker: "worker “/bin/false”", status: .exited(1))) {
            _ = try await WorkerProcess.launch("/bin/false", nameServer: names)
        }
        let silent = try WorkerProcess.start(.init("/bin/sleep", ["60"]), nameServer: names)
        #expect(throws: CheckInError.notCheckedIn(worker: "worker “/bin/sleep”")) { try silent.client() }
        silent.send(signal: SIGKILL)
        let server = try RequestServer(nameServer: names)
        await #expect(throws: CheckInError.self) {
            try await CheckIn.fromEnvironment(before: .patience).complete(with: server)
        }
    }

    @Test func `a worker process answers, ends in order at SIGTERM, and its death is known`() async throws {
        let worker = try await WorkerProcess.launch(Self.program, nameServer: names, before: .patience)
        let client = try worker.client()
        #expect(try await client.request(CountPrimes(below: 100), timeout: .seconds(60)) == 25)
        // A group of its own.
        #expect(getpgid(worker.pid) == worker.pid)
        worker.send(signal: SIGTERM)
        #expect(try await worker.waitForExit(before: .patience) == .exited(0))

        let other = try await WorkerProcess.launch(Self.program, nameServer: names, before: .patience)
        let endless = try other.client()
        let asking = Task { try await endless.request(CountPrimes(below: 1 << 30), timeout: .seconds(1000)) }
        let port = try other.port
        #expect(await waitUntil { (try? await port.info(observing: .milliseconds(1)).requests.count) == 1 })
        other.send(signal: SIGKILL)
        await #expect(throws: PortError.becameInvalid(port: port.identity)) { try await asking.value }
    }

    @Test func `a worker ends with its launcher, however that ends`() async throws {
        let parent = Run(
            ["\(Child.folder)/PortsTestHelper", "launch", "\(Child.folder)/workers", "worker"],
            environment: ["PORTS_DIRECTORY": folder.path])
        func pid() -> pid_t? { pid_t(String(decoding: parent.output, as: UTF8.self).dropLast()) }
        #expect(await waitUntil { pid() != nil })
        let worker = try #require(pid())
        #expect(kill(worker, 0) == 0)
        parent.child.kill()
        #expect(await waitUntil { kill(worker, 0) != 0 })
    }

    @Test func `the kernel's signal for a parent's death comes with the end of the thread that has spawned`() throws {
        let names = names
        let worker = Helper {
            let worker = try? WorkerProcess.start(
                .init("/usr/bin/setpriv", ["--pdeathsig", "TERM", "/usr/bin/sleep", "60"]), nameServer: names)
            // By then, it has asked for the signal.
            let isReady = waitUntil { worker.map { executable(of: $0.pid) } == "/usr/bin/sleep" }
            return isReady ? worker : nil
        }.join()
        // This process lives on.
        #expect(try #require(worker).waitForExit(before: .patience) == .signaled(SIGTERM))
    }
}

private func executable(of pid: pid_t) -> String {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = readlink("/proc/\(pid)/exe", &buffer, buffer.count)
    return String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
}
