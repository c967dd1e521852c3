#if CommandLine
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
            var file = LogFile(try service.report().log)
            for line in try file.last(lines) { print(line.escaped) }
            while follow {
                _ = Latch().wait(until: .now + Self.period)
                endUnread()
                for line in try file.further() { print(line.escaped) }
            }
        }
    }
#endif
