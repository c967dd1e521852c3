import Foundation

/// Runs three clients, and a daemon that is restarted meanwhile, in a registry directory of their own.
func demonstrate() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("tally-\(getpid())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    setenv("PORTS_DIRECTORY", folder.appendingPathComponent("ports").path, 1)
    var programs: [Program] = []
    // None outlives the demonstration.
    defer {
        for program in programs { program.end(with: SIGKILL) }
        try? FileManager.default.removeItem(at: folder)
    }
    func start(_ arguments: String...) throws -> Program {
        let program = try Program(arguments)
        programs.append(program)
        return program
    }
    let file = folder.appendingPathComponent("counts.json").path

    print("Three clients wait for a daemon: one watches, two vote.")
    let watcher = try start("watch")
    let (tea, coffee) = (try start("vote", "tea", "2"), try start("vote", "coffee"))
    print("The daemon starts.")
    var daemon = try start("serve", file)
    for client in [tea, tea, coffee] { print("   a client has voted: \(try client.nextLine())") }
    try watcher.wait(for: "coffee 1, tea 2")
    print("   another has watched: coffee 1, tea 2")

    print("A client votes a thousand times. The daemon is told to end meanwhile, and another one starts.")
    let many = try start("vote", "cocoa", "1000")
    try many.wait(for: "cocoa: 100")
    daemon.end(with: SIGTERM)
    print("   the daemon has ended with status \(daemon.status)")
    daemon = try start("serve", file)
    try many.wait(for: "cocoa: 1000")
    print("   each vote of the client counts, and counts once: cocoa 1000")
    try watcher.wait(for: "cocoa 1000, coffee 1, tea 2")
    print("   the watcher watches the other daemon: cocoa 1000, coffee 1, tea 2")

    print("The daemon is told to end.")
    daemon.end(with: SIGTERM)
    print("   it has ended with status \(daemon.status)")
}
