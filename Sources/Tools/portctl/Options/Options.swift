#if CommandLine
    import ArgumentParser
    import Ports

    struct NameArgument: ParsableArguments {
        @Argument(help: "The port's name.", completion: .names)
        var name: String

        /// Finds the port. A live owner that does not answer before the deadline counts as a timeout.
        func right(before deadline: ContinuousClock.Instant) throws -> MachPort.SendRight {
            try Self.right(of: name, before: deadline)
        }

        static func right(of name: String, before deadline: ContinuousClock.Instant) throws -> MachPort.SendRight {
            do throws(PortError) {
                let names = PortNameServer.shared
                if names.isMissing { throw .nameNotFound(name, directory: names.path) }
                return try names.port(forName: name, before: deadline)
            } catch {
                if case .cannotConnect = error, deadline <= .now { throw ExitCode.timeout(error) }
                throw error
            }
        }
    }

    extension CompletionKind {
        /// The names in the registry directory.
        static var names: CompletionKind {
            .custom { _, _, _ in ((try? PortNameServer.shared.found()) ?? []).map(\.name).sorted() }
        }
    }

    struct JSONFlag: ParsableArguments {
        @Flag(name: .customLong("json"), help: "Write JSON. The page “portctl” of the documentation lists the fields.")
        var isJSON = false

        /// The format that two options choose together.
        /// - Throws: A usage error when they contradict each other.
        func format<Choice: RawRepresentable<String> & Equatable>(
            _ chosen: Choice?, json: Choice, default: Choice
        ) throws -> Choice {
            guard isJSON else { return chosen ?? `default` }
            if let chosen, chosen != json {
                throw ValidationError("--format \(chosen.rawValue) and --json contradict each other: leave one out.")
            }
            return json
        }
    }

    struct Seconds: CustomStringConvertible {
        let duration: Duration

        init(_ duration: Duration) { self.duration = duration }

        init(argument: String) throws {
            guard let seconds = Double(argument), seconds >= 0, seconds < 1e9 else {
                throw ValidationError("a time is a number of seconds, 0 or more")
            }
            duration = .seconds(seconds)
        }

        var description: String { "\(duration / .seconds(1))" }
        var deadline: ContinuousClock.Instant { .now + duration }
    }

    // The word after the option is its value even if it begins with a dash. The error is about the value then.

    extension Option<Seconds> {
        init(wrappedValue: Seconds, name: NameSpecification = .long, seconds help: ArgumentHelp) {
            var help = help
            help.abstract += " (default: \(wrappedValue))"
            self.init(
                wrappedValue: wrappedValue, name: name, parsing: .unconditional, help: help,
                transform: { try Seconds(argument: $0) })
        }
    }

    extension Option<Seconds?> {
        init(seconds help: ArgumentHelp) {
            self.init(parsing: .unconditional, help: help, transform: { try Seconds(argument: $0) })
        }
    }
#endif
