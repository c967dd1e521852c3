#if CommandLine
    import Activation
    import ArgumentParser
    import Glibc
    import Ports

    /// A service as portctl shows it.
    struct ServiceReport: Encodable {
        let name: String
        let state: String
        let pid: Int32?
        let starts: Int
        /// The whole seconds since the state began.
        let since: Int
        let description: String
        let failure: String?
        let file: String
        let log: String

        init(_ status: ServiceStatus) {
            (name, state, pid) = (status.name, status.phase.word, status.phase.pid)
            (starts, since, description) = (
                status.startCount, Int(status.timeInPhase.components.seconds), status.description
            )
            (failure, file, log) = (status.phase.reason ?? status.lastFailure, status.file, status.log)
        }

        static let titles = ["NAME", "STATE", "PID", "STARTS", "SINCE", "DESCRIPTION"]

        var row: [String] {
            [
                name.escaped, state, pid.map { "\($0)" } ?? "-", "\(starts)", shortTime(time),
                (failure ?? description).escaped,
            ]
        }

        /// The time since which the state lasts.
        var time: Int { Int(Glibc.time(nil)) - since }
    }

    /// Calls the closure with the activator.
    func withActivator<Value: Sendable>(_ body: @escaping @Sendable (ActivatorClient) async throws -> Value) throws
        -> Value
    {
        // A client would wait for one.
        if try PortNameServer.shared.isMissing || PortNameServer.shared.registration(forName: Activator.name) == nil {
            throw NoActivator(directory: PortNameServer.shared.path)
        }
        return try awaited { try await body(ActivatorClient()) }
    }

    private struct NoActivator: Problem {
        let directory: String
        var description: String {
            "no activator runs in \(directory): start “portctl activate”, or the user unit that runs it (see PORTS_DIRECTORY)"
        }
    }

    private struct NoService: Problem {
        let name: String
        var description: String { "there is no service “\(name.escaped)”: “portctl services” lists them" }
    }

    extension ServiceFailure: Problem {}
    extension ServiceFileError: Problem {}

    /// The service of a name.
    struct ServiceArgument: ParsableArguments {
        @Argument(help: "The service's name.", completion: .services)
        var name: String

        func report() throws -> ServiceReport {
            guard let status = try withActivator({ try await $0.services() }).first(where: { $0.name == name }) else {
                throw NoService(name: name)
            }
            return ServiceReport(status)
        }
    }

    extension CompletionKind {
        /// The names of the services.
        static var services: CompletionKind {
            .custom { _, _, _ in ((try? withActivator { try await $0.services() }) ?? []).map(\.name) }
        }
    }
#endif
