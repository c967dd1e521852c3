import Dispatch
import Glibc
import TestSupport
import XPC

/// A service or a client in a process of its own.
@main enum XPCTestHelper {
    static func main() {
        // The process ends also when its test does not end it.
        alarm(Scale.isLong ? 7200 : 150)
        switch CommandLine.arguments.dropFirst().first {
        case "serve": serve()
        case "serve-signed":
            XPCPeerRequirement.replaceSignatures(with: .user(geteuid()))
            serve(requirement: .isFromSameTeam(andMatchesSigningIdentifier: "com.example.app"))
        case "connect": connect()
        case "load": load()
        case "growth": Growth.check(CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 0)
        default: fail("usage: XPCTestHelper serve | serve-signed | connect | load SEED SECONDS | growth SESSIONS")
        }
    }

    private static func serve(requirement: XPCPeerRequirement = .user(geteuid())) -> Never {
        let service = Service()
        do {
            _ = try XPCListener(
                service: "service", requirement: requirement, incomingSessionHandler: { service.accept($0) })
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

    /// Asks the service until the time is over, and tells the test what has come of it.
    private static func load() -> Never {
        let words = CommandLine.arguments.dropFirst(2).compactMap { UInt64($0) }
        guard words.count == 2 else { fail("usage: XPCTestHelper load SEED SECONDS") }
        do {
            let result = Load.run(seed: words[0], for: .seconds(Int64(clamping: words[1])))
            let session = try XPCSession(machService: "results")
            let _: XPCReceivedMessage = try session.sendSync(result)
            session.cancel(reason: "done")
            exit(0)
        } catch {
            fail("\(error)")
        }
    }
}
