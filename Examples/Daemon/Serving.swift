import Glibc
import Systemd
import TypedPorts

/// Greets until SIGTERM or SIGINT, and reads its file again on SIGHUP.
func serve(path: String) async throws {
    // First: until the sequence is made, these signals end the process at once.
    let signals = try SignalSequence([SIGTERM, SIGINT, SIGHUP])
    defer { withExtendedLifetime(signals) {} }
    let greeter = Greeter(path: path, counter: try await Counter())
    let server = try RequestServer(name: serviceName)
    server.handle(Greet.self) { greet in await greeter.greet(greet.name) }
    server.handle(Report.self) { _ in await greeter.report }
    async let running: Void = server.run()
    let watchdog = Task { try await SystemdDaemon.runWatchdog { try await server.ping(timeout: $0) } }

    // The name is there: programs that the manager starts after this one find it.
    try await SystemdDaemon.notify(.ready, .status("says “\(greeter.words)”"))
    while try await signals.wait() == SIGHUP {
        try await SystemdDaemon.notify(.reloading)
        await greeter.reload()
        try await SystemdDaemon.notify(.ready, .status("says “\(greeter.words)”"))
    }

    try await SystemdDaemon.notify(.stopping)
    watchdog.cancel()
    // A handler that does not return must not keep the program.
    guard await server.finish(timeout: .seconds(10)) else { exit(1) }
    try await running
}
