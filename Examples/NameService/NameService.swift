import Glibc

/// A service with a name, and those who use it: each survives the others' restarts.
///
/// Run “name-service server” in one terminal and “name-service client” in others, and kill and restart them as you like. A
/// title may follow. Without arguments, a demonstration does that.
@main
struct NameService {
    static func main() throws {
        let words = CommandLine.arguments.dropFirst()
        let title = words.dropFirst().first
        switch words.first {
        case "server": try Server(title ?? "Server \(getpid())").run()
        case "client": try Client(title ?? "Client \(getpid())").run()
        case nil: try Demonstration().run()
        default:
            say("usage: name-service [server [TITLE] | client [TITLE]]")
            exit(64)
        }
    }
}

/// What the service is known by.
let serviceName = "com.example.name-service"

/// What server and clients print goes to one place, each line at once.
func say(_ line: String) {
    print(line)
    fflush(nil)
}
