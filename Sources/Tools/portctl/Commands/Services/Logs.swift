#if CommandLine
    import Activation
    import ArgumentParser
    import Glibc
    import RunLoops

    struct Logs: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show what a service has written, on its standard output and error.")

        @OptionGroup var service: ServiceArgument
        @Option(name: [.customShort("n"), .long], help: "The number of lines, from the end.")
        var lines = 100
        @Flag(name: .shortAndLong, help: "Go on with what the service writes, until interrupted.")
        var follow = false

        func validate() throws {
            if lines < 0 { throw ValidationError("--lines \(lines) is no number of lines: 0 or more") }
        }

        private static let period = Duration.milliseconds(200)

        func run() throws {
            var log = LogTail(try service.report().log)
            for line in try log.last(lines) { print(line.escaped) }
            while follow {
                _ = Latch().wait(until: .now + Self.period)
                endUnread()
                for line in try log.further() { print(line.escaped) }
            }
        }
    }

    extension LogTail {
        /// The last lines, of the last mebibyte.
        mutating func last(_ count: Int) throws(Failure) -> [String] { try last(count, ofBytes: 1 << 20) }
    }

    extension LogTail.Failure: Problem {}
#endif
