#if CommandLine
    import Activation
    import ArgumentParser

    struct Start: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Start a service without a message, and wait until it serves.")

        @OptionGroup var service: ServiceArgument
        @OptionGroup var wait: ServiceTimeout

        func run() throws {
            _ = try withActivator { [name = service.name, time = wait.time] in try await $0.start(name, timeout: time) }
        }
    }

    struct Stop: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ask a service to end, and wait until it has. The next message starts it again.")

        @OptionGroup var service: ServiceArgument
        @OptionGroup var wait: ServiceTimeout

        func run() throws {
            _ = try withActivator { [name = service.name, time = wait.time] in try await $0.stop(name, timeout: time) }
        }
    }

    struct Restart: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Stop a service, if it runs, and start it. Messages wait meanwhile.")

        @OptionGroup var service: ServiceArgument
        @OptionGroup var wait: ServiceTimeout

        func run() throws {
            _ = try withActivator { [name = service.name, time = wait.time] in try await $0.restart(name, timeout: time)
            }
        }
    }

    struct Reload: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read the folder of the service files again.",
            discussion:
                """
                New services wait for messages, and those without a file are stopped. A changed file counts at the next start. A \
                service that has failed may be started again. Fails when a file has an error, and reads the others all the same.
                """
        )

        func run() throws { _ = try withActivator { try await $0.reload() } }
    }

    struct ServiceTimeout: ParsableArguments {
        @Option(seconds: "Seconds to wait.")
        var timeout = Seconds(.seconds(30))

        var time: Duration { timeout.duration }
    }
#endif
