import Foundation
import TypedPorts

/// A daemon that nobody manages, and its client.
func demonstrate() async throws {
    // A registry directory and a greeting of their own.
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("daemon-\(getpid())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    setenv("PORTS_DIRECTORY", folder.appendingPathComponent("ports").path, 1)
    let greeting = folder.appendingPathComponent("greeting")

    print("The daemon starts. Without a service manager it serves all the same.")
    let daemon = Process()
    daemon.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    daemon.arguments = ["serve", greeting.path]
    try daemon.run()
    defer { if daemon.isRunning { daemon.terminate() } }
    let client = RequestClient(serviceName)
    print("  ", try await client.request(Greet(name: "Ann")))

    print("SIGHUP: it reads its file again.")
    try Data("Good evening\n".utf8).write(to: greeting)
    kill(daemon.processIdentifier, SIGHUP)
    while try await client.request(Report()).reloads == 0 { try await Task.sleep(for: .milliseconds(10)) }
    print("  ", try await client.request(Greet(name: "Ben")))
    print("   greetings so far: \(try await client.request(Report()).greetings)")

    daemon.terminate()
    daemon.waitUntilExit()
    print("SIGTERM: it has ended with status \(daemon.terminationStatus).")
}
