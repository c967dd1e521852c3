@preconcurrency import Glibc  // for stderr
import RunLoops

// A server of a socket on one run loop, as with CFSocket: one source accepts, one a connection reads, and each source
// closes its descriptor. “socket-server PATH” serves until SIGTERM or SIGINT, and “nc -U PATH” is a client. Without
// arguments, a demonstration has a server and two clients.

@MainActor func serve(_ path: String) throws {
    let server = try Server(path: path)
    for signal in [SIGTERM, SIGINT] {
        try ThreadRunLoop.main.add(.signal(signal) { _ in ThreadRunLoop.main.stop() })
    }
    try ThreadRunLoop.main.run()
    server.close()
}

@MainActor func demonstrate() throws {
    let path = "/tmp/socket-server-\(getpid())"
    let server = try Server(path: path)
    print("Main: I serve a socket on my loop. The clients have a thread of their own.")
    let clients = try RunLoopThread(name: "clients")
    try clients.loop.perform {
        do { try runClients(path) } catch { print("Clients: \(error)") }
        try? ThreadRunLoop.main.perform { ThreadRunLoop.main.stop() }
    }
    try ThreadRunLoop.main.run()
    server.close()
    print("Main: the clients are done. So am I.")
}

do {
    switch CommandLine.arguments.count {
    case 1: try demonstrate()
    case 2: try serve(CommandLine.arguments[1])
    default:
        fputs("usage: socket-server [PATH]\n", stderr)
        exit(64)
    }
} catch {
    fputs("socket-server: \(error)\n", stderr)
    exit(1)
}
