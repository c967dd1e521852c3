#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports

    @main
    struct Portctl: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "portctl",
            abstract: "Look at the named ports of your programs, and talk to them.",
            discussion: """
                Something is wrong? Begin with doctor, or with list; info NAME says all about one name.

                The registry directory is $PORTS_DIRECTORY, else $XDG_RUNTIME_DIR/ports, else /tmp/ports-UID.

                Exit status: 0 done; 1 another error, or an error that doctor found; 2 nobody has the name; 3 timeout; \
                4 the port is invalid; 5 the request got no reply; 64 wrong usage. \
                Errors go to the standard error.

                With --json, most commands write JSON: the page “portctl” of the documentation lists the fields.

                Completions for your shell: portctl --generate-completion-script bash (or zsh, or fish).
                """,
            version: PortRuntime.packageVersion,
            subcommands: [
                List.self, Info.self, Send.self, Request.self, Ping.self, Monitor.self, Watch.self, Wait.self, Top.self,
                Sweep.self, Doctor.self, Timeline.self, Map.self, Services.self, Start.self, Stop.self, Restart.self,
                Status.self, Logs.self, Reload.self, Activate.self,
            ]
        )

        static func main() {
            openMissingDescriptors()
            do {
                try checkCommand()
                var command = try parseAsRoot()
                try command.run()
                // The library flushes sent messages at exit.
                Glibc.exit(0)
            } catch let error as PortError {
                report(error)
                exit(withError: ExitCode(error))
            } catch let error as any Problem {
                report(error)
                Glibc.exit(1)
            } catch {
                exit(withError: error)
            }
        }

        /// Lists the commands when the first word is none of them.
        private static func checkCommand() throws {
            let names = configuration.subcommands.map { $0._commandName }.sorted() + ["help"]
            let words = CommandLine.arguments.dropFirst()
            guard let word = words.first == "help" ? words.dropFirst().first : words.first, !word.hasPrefix("-"),
                !names.contains(word)
            else { return }
            throw ValidationError(
                "There is no command “\(word.escaped)”. The commands are \(names.joined(separator: ", ")).")
        }
    }
#endif
