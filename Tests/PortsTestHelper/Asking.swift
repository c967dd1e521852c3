import Glibc
import Ports
import TestSupport

/// Asks the port of a name again and again, fifty requests at a time, and gives many of them up. Exits with 0 when each
/// request has had an outcome that its id allows.
func askAndGiveUp(_ name: String, _ count: Int) -> Never {
    Task.detached {
        do {
            let remote = RemoteMessagePort(try await PortNameServer.shared.waitForPort(forName: name))
            let fault = await faultOfAskers(of: remote, count, seed: UInt64(getpid()))
            if let fault { fail(fault) }
            exit(0)
        } catch {
            fail("\(error)")
        }
    }
    while true { pause() }
}

/// Answers requests, and tells the port named "test" first which it handles.
func serveAndTell(_ name: String) throws -> Never {
    let told = try test()
    let server = try LocalMessagePort(name: name) { request in
        try? told.send(MachPort.Message(id: 3, [.bytes(request.data ?? [])]), before: .now + .seconds(30))
        try? request.replyRight?.reply(with: request.data)
    }
    try server.schedule(in: .current)
    try runForEver()
}
