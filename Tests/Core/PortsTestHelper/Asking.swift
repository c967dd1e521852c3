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

/// Answers requests, and appends each one's data to a file before, where a kill can't take it back: a message that was
/// sent by ZeroMQ can still be in this process.
func serveAndTell(_ name: String, file path: String) throws -> Never {
    let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    let server = try LocalMessagePort(name: name) { request in
        let data = request.data ?? []
        guard write(file, data, data.count) == data.count else { fail("cannot write \(path)") }
        try? request.replyRight?.reply(with: data)
    }
    try server.schedule(in: .current)
    try runForEver()
}
