import Dispatch
import Glibc
import TestSupport
import XPC

/// A service or a client in a process of its own.
@main enum XPCTestHelper {
    static func main() {
        // The process ends also when its test does not end it.
        alarm(150)
        switch CommandLine.arguments.dropFirst().first {
        case "serve": serve()
        case "connect": connect()
        default: fail("usage: XPCTestHelper serve | connect")
        }
    }

    private static func serve() -> Never {
        let service = Service()
        do {
            _ = try XPCListener(service: "service", incomingSessionHandler: { service.accept($0) })
        } catch {
            fail("\(error)")
        }
        dispatchMain()
    }

    /// A client that keeps its session until it is killed.
    private static func connect() -> Never {
        do {
            let session = try XPCSession(machService: "service")
            try session.send(Report(text: "\(getpid())"))
            withExtendedLifetime(session) { dispatchMain() }
        } catch {
            fail("\(error)")
        }
    }
}
