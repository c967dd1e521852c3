import Foundation
import MetricsTestKit
import Ports
import PortsMetrics
import Testing

@Suite struct MetricsTests {
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
        "metrics-\(UUID().uuidString.prefix(8))")
    private let metrics = TestMetrics()
    private let system = [("messaging.system", "swift-ports")]
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
        #expect(try metrics.expectCounter("messaging.client.consumed.messages", system).totalValue == 2)
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

        // The metrics of a name end with it, and begin anew with another port of the name.
        port.invalidate()
        await reporter.report()
        #expect(metrics.counters(label: "ports.named.received").isEmpty)
        #expect(try metrics.expectCounter("messaging.client.consumed.messages", system).totalValue == 3)
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

    @Test(arguments: [Duration.zero, .seconds(-1), .microseconds(999), .seconds(86_401)])
    func `an interval that would keep a processor busy, or never end, is refused`(interval: Duration) throws {
        let allowed = Duration.milliseconds(1) ... .seconds(86_400)
        #expect(throws: PortError.invalidDuration(name: "every", value: interval, allowed: allowed)) {
            _ = try PortMetricsReporter(runtime: PortRuntime(directory: folder.path), every: interval, factory: metrics)
        }
    }
}
