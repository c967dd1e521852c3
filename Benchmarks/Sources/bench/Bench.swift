import Glibc

/// Compares the ports with raw libzmq, and the run loop with Foundation's and SwiftNIO's.
///
///     swift run -c release --package-path Benchmarks bench [ports | loop [part of a row's name [rounds]]]
@main
struct Bench {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            switch (arguments.first, arguments.count) {
            case (Child.argument, 2):
                try serve(arguments[1])
            case (nil, 0):
                try PortBenchmarks.run()
                try LoopBenchmarks.run()
            case ("ports", 1):
                try PortBenchmarks.run()
            case ("loop", 1...3):
                let rounds = arguments.count > 2 ? Int(arguments[2]) : nil
                try LoopBenchmarks.run(only: arguments.count > 1 ? arguments[1] : nil, rounds: rounds)
            default:
                throw BenchError.usage
            }
        } catch {
            fail(error)
        }
    }

    private static func serve(_ role: String) throws {
        let words = role.split(separator: " ", maxSplits: 2).map(String.init)
        if words.first == Leaks.role { return try Leaks.serve(words) }
        try Child.endWithParent()
        if words.count == 3, let overhead = Int(words[1]) {
            try RawPeer.serve(words[2], RawFrame(overhead: overhead))
        } else {
            try PortPeer.serve()
        }
    }
}

/// What keeps the benchmark from running.
enum BenchError: Error, CustomStringConvertible {
    case lost(sent: Int, counted: Int)
    case noChild
    case noRow(String)
    case system(String, errno: Int32)
    case usage

    var description: String {
        switch self {
        case .lost(let sent, let counted): "\(sent) messages were sent and \(counted) arrived"
        case .noChild: "the child did not say what it had to"
        case .noRow(let name): "no row is named like \(name)"
        case .system(let call, let errno): "\(call) failed with errno \(errno)"
        case .usage: "usage: bench [ports | loop [part of a row's name [rounds]]]"
        }
    }
}

/// Nothing was compared if anything could not run.
func fail(_ error: any Error) -> Never {
    let text = "bench: \(error)\n"
    _ = write(STDERR_FILENO, text, text.utf8.count)
    exit(1)
}
