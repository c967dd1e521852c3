import ArgumentParser
import Glibc

/// A service with a name, and those who use it: each survives the others' restarts.
@main
struct NameService: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "name-service",
        abstract: "A service with a name, and clients that survive its restarts as it survives theirs.",
        discussion: """
            Run “name-service server” in one terminal and “name-service client” in others, and kill and restart them \
            as you like. Without a subcommand, a demonstration does that.
            """,
        subcommands: [Serve.self, Ask.self])

    func run() throws { try Demonstration().run() }
}

/// What the service is known by.
let serviceName = "com.example.name-service"

/// What server and clients print goes to one place, each line at once.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "server", abstract: "Own the name, and answer who asks, until SIGTERM or SIGINT.")

    @Argument(help: "What it calls itself.")
    var title = "Server \(getpid())"

    func run() throws { try Server(title).run() }
}

struct Ask: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client", abstract: "Ask whoever owns the name, again and again.")

    @Argument(help: "What it calls itself.")
    var title = "Client \(getpid())"

    func run() throws { try Client(title).run() }
}
