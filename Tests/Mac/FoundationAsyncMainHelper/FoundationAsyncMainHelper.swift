import Foundation
import FoundationPorts

/// A program whose `main` is async, with items of Foundation's main loop. It ends with status 0 when they were served.
@main
struct FoundationAsyncMainHelper {
    private nonisolated(unsafe) static var served: [String] = []  // Sound: used on the main thread alone.

    static func main() async throws {
        alarm(60)
        if CommandLine.arguments.contains("unserved") {
            await MainActor.run { RunLoop.main.add(NSMachPort(), forMode: .default) }
            while true { try await Task.sleep(for: .seconds(60)) }
        }
        ThreadRunLoop.main.serveFoundation()
        await MainActor.run { schedule() }
        while await MainActor.run(body: { served.count < 3 }) { try await Task.sleep(for: .milliseconds(1)) }
        let all = await MainActor.run { Set(served) }
        exit(all.isSuperset(of: ["timer", "message"]) ? 0 : 1)
    }

    @MainActor private static func schedule() {
        let timer = Timer(timeInterval: 0.001, repeats: true) { _ in served.append("timer") }
        RunLoop.main.add(timer, forMode: .default)
        let port = NSMachPort()
        let receiver = Receiver()
        port.setDelegate(receiver)
        RunLoop.main.add(port, forMode: .default)
        _ = PortMessage(send: port, receive: nil, components: nil).send(before: Date(timeIntervalSinceNow: 30))
        // The delegate is not kept by the port.
        Self.receiver = receiver
    }

    @MainActor private static var receiver: Receiver?

    private final class Receiver: NSObject, PortDelegate {
        func handle(_ message: PortMessage) { served.append("message") }
    }
}
