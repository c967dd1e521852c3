#if CommandLine
    import Activation
    import ArgumentParser
    import Glibc
    import Ports
    import RunLoops
    import Systemd

    struct Activate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Hold the ports of services, and start each when the first message comes, until interrupted.",
            discussion: """
                Each file NAME.service in the folder stands for a service whose port has that name. The page “Start on demand” of the \
                documentation has the keys. SIGHUP reads the folder again, as reload does. SIGTERM and Ctrl-C end the services.
                """)

        @Option(
            help: "The folder of the service files (default: $PORTS_SERVICES, else ~/.config/swift-ports/services).")
        var services: String?
        @Option(help: "The folder for the services' output (default: ~/.local/state/swift-ports/log).")
        var logs: String?

        func run() throws {
            try awaited {
                let signals = try SignalSequence([SIGHUP, SIGTERM, SIGINT])
                let activator = try activator()
                try await withThrowingDiscardingTaskGroup { group in
                    group.addTask { try await SystemdDaemon.runWatchdog { try await activator.ping(timeout: $0) } }
                    group.addTask {
                        for await signal in signals {
                            if signal == SIGHUP { await reload(activator) } else { return await end(activator) }
                        }
                    }
                    try await activator.run { await tellReady(activator) }
                    group.cancelAll()
                }
            }
        }

        private func reload(_ activator: Activator) async {
            await tell { try await SystemdDaemon.notify(.reloading) }
            do { try activator.reload() } catch { report(error) }
            await tellReady(activator)
        }

        private func end(_ activator: Activator) async {
            await tell { try await SystemdDaemon.notify(.stopping) }
            activator.stop()
        }

        private func tellReady(_ activator: Activator) async {
            await tell { try await SystemdDaemon.notify(.ready, .status("services: \(activator.serviceCount)")) }
        }

        /// Tells the service manager something, if there is one.
        private func tell(_ notify: () async throws -> Void) async {
            do { try await notify() } catch { report(error) }
        }
    }

    extension Activate {
        private func activator() throws -> Activator {
            do {
                return try Activator(folder: services, logs: logs)
            } catch {
                guard case .nameInUse(Activator.name, let owner) = error else { throw error }
                throw ActivatorRuns(owner: owner)
            }
        }
    }

    private struct ActivatorRuns: Problem {
        let owner: PortIdentity
        var description: String {
            "\(owner) holds the services of \(PortNameServer.shared.path) already: end it, or set PORTS_DIRECTORY"
        }
    }
#endif
