#if CommandLine
    import ArgumentParser

    struct Services: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the services that start on demand.",
            discussion: """
                STATE is waiting, when the first message starts the service; starting, running or stopping; failed, when it could not be \
                started or has ended too often, and requests get the reason for a while; elsewhere, when a process has the name that \
                the activator has not started; or unusable, when the name cannot be taken.
                """)

        @OptionGroup var output: JSONFlag

        func run() throws {
            let reports = try withActivator { try await $0.services() }.map { ServiceReport($0) }
            if output.isJSON { return print(json: reports) }
            print(Table(rows: [ServiceReport.titles] + reports.map(\.row), stateColumn: 1, whole: 1...4))
        }
    }
#endif
