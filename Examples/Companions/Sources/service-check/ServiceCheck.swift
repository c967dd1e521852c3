import Glibc
import Logging
import Ports
import RunLoops
import ServiceLifecycle

/// Ends a group of services with requests in progress: all are answered. Ends with status 0 when all is well.
@main
struct ServiceCheck {
    static func main() async throws {
        alarm(60)
        let group = ServiceGroup(
            configuration: .init(
                services: [.init(service: EchoService())], gracefulShutdownSignals: [.sigterm],
                logger: Logger(label: "service-check")))
        let running = Task { try await group.run() }
        let right = try await PortNameServer.shared.waitForPort(
            forName: "com.example.echo", before: .now + .seconds(30))
        let remote = RemoteMessagePort(right)
        let asking = (0..<50).map { number in Task { try await remote.request(id: 1, [number]) == [number] } }
        await inProgress.wait(for: 50)
        kill(getpid(), SIGTERM)
        await waitUntilRefused(remote)
        await inProgress.open()
        for task in asking where try await !task.value { fatalError("a wrong reply") }
        try await running.value
    }

    private static func waitUntilRefused(_ remote: RemoteMessagePort) async {
        while true {
            do {
                _ = try await remote.request(id: 1, nil)
                await Task.yield()
            } catch PortError.refused {
                return
            } catch {
                fatalError("\(error)")
            }
        }
    }
}

private let inProgress = Gate()

/// Requests with data are in progress until the gate opens.
func answer(_ request: MessagePortRequest) async throws -> [UInt8]? {
    if request.data != nil { await inProgress.pass() }
    return request.data
}

private actor Gate {
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func pass() async { await withCheckedContinuation { waiting.append($0) } }

    func wait(for count: Int) async { while waiting.count < count { await Task.yield() } }

    func open() { for continuation in waiting { continuation.resume() } }
}
