import Foundation
import TypedPorts

/// Prints a line at once, also when the output is a pipe.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

/// A daemon and its clients: “tally serve FILE” is the daemon, “tally vote” and “tally watch” are clients. Without
/// arguments a demonstration runs them all.
@main
struct TallyCommand {
    static func main() async {
        do {
            let arguments = CommandLine.arguments.dropFirst()
            switch (arguments.first, Array(arguments.dropFirst())) {
            case ("serve"?, let rest) where rest.count == 1: try await serve(URL(fileURLWithPath: rest[0]))
            case ("vote"?, let rest) where rest.count == 1: try await vote(for: rest[0], times: 1)
            case ("vote"?, let rest) where rest.count == 2:
                guard let times = Int(rest[1]), times > 0 else { fail("“\(rest[1])” is not a number of votes", 64) }
                try await vote(for: rest[0], times: times)
            case ("watch"?, []): try await watch()
            case (nil, _): try demonstrate()
            default: fail("usage: tally [serve FILE | vote CHOICE [TIMES] | watch]", 64)
            }
        } catch {
            fail("\(error)", 1)
        }
    }

    private static func fail(_ reason: String, _ status: Int32) -> Never {
        FileHandle.standardError.write(Data("tally: \(reason)\n".utf8))
        exit(status)
    }
}
