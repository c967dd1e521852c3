import Activation
import Foundation
import MetricsTestKit
import Ports
import PortsMetrics
import Testing
import TypedPorts
import Workers

private struct Halve: PortRequest {
    typealias Reply = Int
    enum Failure: Error, Codable { case odd }
    let number: Int
}

private struct Count: PortStreamRequest {
    typealias Element = Int
    let limit: Int
}

@Suite struct MetricsTests {
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
        "metrics-\(UUID().uuidString.prefix(8))")
    private let metrics = TestMetrics()
    private let received = [("messaging.system", "swift-ports"), ("messaging.operation.name", "receive")]
    private let named = [("messaging.destination.name", "measured")]

    @Test func `counters advance by what has come, and gauges show what is`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (owner, asker) = (PortRuntime(directory: folder.path), PortRuntime(directory: folder.path))
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "measured")
        let right = try await asker.nameServer.port(forName: "measured", before: .now + .seconds(30))
        let reporter = try PortMetricsReporter(runtime: owner, every: .seconds(1000), factory: metrics)
        let senders = try PortMetricsReporter(runtime: asker, every: .seconds(1000), factory: TestMetrics())

        for _ in 0..<5 { try await right.send(MachPort.Message()) }
        for _ in 0..<2 { _ = try await port.receive() }
        await reporter.report()
        await senders.report()
        #expect(try metrics.expectCounter("messaging.client.consumed.messages", received).totalValue == 2)
        #expect(try metrics.expectCounter("ports.named.received", named).totalValue == 2)
        #expect(try metrics.expectMeter("ports.named.waiting", named).values.last == 3)
        #expect(try metrics.expectMeter("ports.messages.waiting").values.last == 3)
        #expect(try metrics.expectMeter("ports.peers").values.last == 1)
        #expect(try metrics.expectMeter("ports.count").values.last == 1)

        _ = try await port.receive()
        await reporter.report()
        await reporter.report()
        #expect(try metrics.expectCounter("ports.named.received", named).values == [2, 1])
        #expect(try metrics.expectMeter("ports.named.waiting", named).values == [3, 2, 2])

        // The metrics of a name end with it, and begin again with another port of the name.
        port.invalidate()
        await reporter.report()
        #expect(metrics.counters(label: "ports.named.received").isEmpty)
        #expect(try metrics.expectCounter("messaging.client.consumed.messages", received).totalValue == 3)
    }

    /// Reports until the metrics are as expected.
    private func report(_ reporter: PortMetricsReporter, until isDone: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            await reporter.report()
            if (try? isDone()) == true { return }
            try #require(.now < deadline, "the metrics do not come")
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    @Test func `requests in progress and lanes have metrics by the name of the port`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let runtime = PortRuntime(directory: folder.path)
        let server = try RequestServer(name: "measured", nameServer: runtime.nameServer)
        let (isOpen, gate) = AsyncStream.makeStream(of: Void.self)
        server.handle(Halve.self, in: RequestLane("slow", atMost: 1, whenFull: .refuse(beyond: 1))) { _ in
            for await _ in isOpen {}
            return 0
        }
        async let serving: Void = server.run()
        let client = RequestClient(server.sendRight)
        let asking = (0..<2).map { _ in
            Task { try await client.request(Halve(number: 0), timeout: .seconds(60)) }
        }
        let reporter = try PortMetricsReporter(runtime: runtime, every: .seconds(1000), factory: metrics)
        let lane = named + [("ports.lane.name", "slow")]
        try await report(reporter) { try metrics.expectMeter("ports.lane.waiting", lane).values.last == 1 }
        #expect(try metrics.expectMeter("ports.lane.running", lane).values.last == 1)
        #expect(try metrics.expectMeter("ports.requests.active").values.last == 2)
        #expect(try metrics.expectMeter("ports.named.requests.active", named).values.last == 2)
        await #expect(throws: PortError.self) { try await client.request(Halve(number: 0), timeout: .seconds(60)) }
        await reporter.report()
        #expect(try metrics.expectCounter("ports.lane.refused", lane).totalValue == 1)
        gate.finish()
        for task in asking { #expect(try await task.value == 0) }
        await server.finish()
        try await serving
    }

    @Test func `pools have metrics by their names, the states of their workers, and the ends of these`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let runtime = PortRuntime(directory: folder.path)
        var options = WorkerPool.Options()
        options.intensity = RestartIntensity(most: 1_000_000, in: .seconds(60))
        // Its workers end without a check-in.
        let pool = try WorkerPool(
            "/bin/true", count: 2, name: "images", options: options, nameServer: runtime.nameServer)
        let reporter = try PortMetricsReporter(runtime: runtime, every: .seconds(1000), factory: metrics)
        let running = Task { try await pool.run() }
        await #expect(throws: WorkerPoolError.self) {
            try await pool.request(Halve(number: 2), timeout: .milliseconds(50))
        }
        let name = [("ports.pool.name", "images")]
        let notStarted = name + [("ports.worker.end", "not_started")]
        try await report(reporter) { try metrics.expectCounter("ports.pool.workers.ended", notStarted).totalValue > 0 }
        _ = await pool.stop()
        _ = await running.result
        await reporter.report()
        #expect(try metrics.expectCounter("ports.pool.workers.ended", notStarted).totalValue > 0)
        let missing = try metrics.expectMeter("ports.pool.workers", name + [("ports.worker.state", "missing")])
        #expect(missing.values.contains(2) || missing.values.contains(1))
        // The gauges end with the pool.
        for state in ["idle", "busy", "spare", "missing"] {
            let meter = try metrics.expectMeter("ports.pool.workers", name + [("ports.worker.state", state)])
            #expect(meter.values.last == 0)
        }
        #expect(try metrics.expectCounter("ports.pool.waited", name).totalValue == 1)
        #expect(try metrics.expectMeter("ports.pool.waiting", name).values.last == 0)
    }

    @Test func `services of an activator have metrics by their states and names`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (services, runtime) = (
            folder.appendingPathComponent("services"), PortRuntime(directory: folder.path + "/ports")
        )
        try FileManager.default.createDirectory(at: services, withIntermediateDirectories: true)
        for name in ["one", "two"] {
            try Data("[Service]\nExecStart=/bin/true\n".utf8).write(
                to: services.appendingPathComponent("\(name).service"))
        }
        let activator = try Activator(folder: services.path, logs: folder.path + "/log", nameServer: runtime.nameServer)
        let running = Task { try await activator.run() }
        let reporter = try PortMetricsReporter(runtime: runtime, every: .seconds(1000), factory: metrics)
        let waiting = [("ports.service.state", "waiting")]
        try await report(reporter) { try metrics.expectMeter("ports.services", waiting).values.last == 2 }
        #expect(throws: Never.self) {
            try metrics.expectCounter("ports.service.starts", [("ports.service.name", "one")])
        }
        activator.stop()
        try await running.value
        await reporter.report()
        #expect(try metrics.expectMeter("ports.services", waiting).values.last == 0)
    }

    @Test func `a reporter reports in its task until the task is cancelled`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let runtime = PortRuntime(directory: folder.path)
        let reporter = try PortMetricsReporter(runtime: runtime, every: .milliseconds(1), factory: metrics)
        let reporting = Task { await reporter.run() }
        while try metrics.expectMeter("ports.count").values.count < 3 { await Task.yield() }
        reporting.cancel()
        await reporting.value
    }

    @Test func `a reporter that is cancelled reports once more`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (owner, asker) = (PortRuntime(directory: folder.path), PortRuntime(directory: folder.path))
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "measured")
        let right = try await asker.nameServer.port(forName: "measured", before: .now + .seconds(30))
        let reporter = try PortMetricsReporter(runtime: owner, every: .seconds(1000), factory: metrics)
        let reporting = Task { await reporter.run() }
        while try metrics.expectMeter("ports.count").values.isEmpty { await Task.yield() }
        for _ in 0..<3 { try await right.send(MachPort.Message()) }
        _ = try await port.receive()
        reporting.cancel()
        await reporting.value
        #expect(try metrics.expectCounter("ports.named.received", named).totalValue == 1)
        // The senders were asked, too.
        #expect(try metrics.expectMeter("ports.named.waiting", named).values.last == 2)
    }

    @Test func `requests are timed at both ends, by their type and the type of their error`() async throws {
        let server = try RequestServer()
        server.handle(Halve.self) { request in
            if request.number == 13 { throw CancellationError() }
            guard request.number.isMultiple(of: 2) else { throw Halve.Failure.odd }
            return request.number / 2
        }
        server.handle(Count.self) { request in
            AsyncThrowingStream { continuation in
                for number in 0..<request.limit { continuation.yield(number) }
                continuation.finish(throwing: request.limit == 13 ? Halve.Failure.odd : nil)
            }
        }
        let theirs = TestMetrics()
        server.measure(by: theirs)
        async let serving: Void = server.run()
        let client = RequestClient(server.sendRight).measured(by: metrics)
        for number in [2, 4] { _ = try await client.request(Halve(number: number), timeout: .seconds(30)) }
        await #expect(throws: Halve.Failure.odd) {
            try await client.request(Halve(number: 3), timeout: .seconds(30))
        }
        await #expect(throws: PortError.self) { try await client.request(Halve(number: 13), timeout: .seconds(30)) }
        for try await _ in client.stream(Count(limit: 3), timeout: .seconds(30)) {}
        await #expect(throws: PortError.self) {
            for try await _ in client.stream(Count(limit: 13), timeout: .seconds(30)) {}
        }
        // Given up in the middle.
        for try await _ in client.stream(Count(limit: 100_000), timeout: .seconds(30)) { break }
        // Handlers of streams end a moment later.
        await server.finish()
        try await serving

        let failures = ["CancellationError", "Halve.Failure"]
        let errors = ["", "PortError.unanswered"] + failures
        #expect(counts(metrics, "rpc.client.call.duration", "Halve", errors) == [2, 1, 0, 1])
        #expect(counts(theirs, "rpc.server.call.duration", "Halve", [""] + failures) == [2, 1, 1])
        #expect(counts(metrics, "rpc.client.call.duration", "Count", ["", "PortError.failed"]) == [2, 1])
        #expect(counts(theirs, "rpc.server.call.duration", "Count", [""] + failures) == [1, 1, 1])
        for timer in metrics.timers + theirs.timers {
            #expect(timer.values.allSatisfy { $0 > 0 && $0 < 60_000_000_000 })
            #expect(timer.displayUnit == .seconds)
        }
    }

    private func counts(_ metrics: TestMetrics, _ label: String, _ method: String, _ errors: [String]) -> [Int] {
        errors.map { error in
            var dimensions = [("rpc.system.name", "swift-ports"), ("rpc.method", method)]
            if !error.isEmpty { dimensions.append(("error.type", error)) }
            return (try? metrics.expectTimer(label, dimensions))?.values.count ?? 0
        }
    }

    @Test(arguments: [Duration.zero, .seconds(-1), .microseconds(999), .seconds(86_401)])
    func `an interval that would keep a processor busy, or never end, is refused`(interval: Duration) throws {
        let allowed = Duration.milliseconds(1) ... .seconds(86_400)
        #expect(throws: PortError.invalidDuration(name: "every", value: interval, allowed: allowed)) {
            _ = try PortMetricsReporter(runtime: PortRuntime(directory: folder.path), every: interval, factory: metrics)
        }
    }
}
