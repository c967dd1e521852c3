#if CommandLine
    import Activation
    import ArgumentParser

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a service, with the last lines of its output.")

        @OptionGroup var service: ServiceArgument
        @OptionGroup var output: JSONFlag

        private static let lineCount = 5

        func run() throws {
            let report = try service.report()
            if output.isJSON { return print(json: report) }
            var facts = [
                ("service", report.name.escaped), ("about", report.description.escaped),
                ("state", "\(report.state) since \(time(report.time))"), ("failure", report.failure?.escaped ?? ""),
                ("process", report.pid.map { "\($0)" } ?? ""), ("starts", "\(report.starts)"),
                ("file", report.file.escaped), ("log", report.log.escaped),
            ]
            facts.removeAll { $0.1.isEmpty }
            print(facts: facts.map { (title: $0.0, text: $0.1) })
            var log = LogTail(report.log)
            for line in try log.last(Self.lineCount) { print("  " + line.escaped) }
        }
    }
#endif
