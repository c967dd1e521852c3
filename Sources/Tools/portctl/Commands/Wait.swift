#if CommandLine
    import ArgumentParser
    import Ports

    struct Wait: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Wait until somebody has a name, or, with --gone, until nobody has the name.")

        @OptionGroup var port: NameArgument
        @Flag(name: .customLong("gone"), help: "Wait for the end of the name.")
        var isForEnd = false
        @Option(seconds: "Seconds to wait; without end by default.")
        var timeout: Seconds?

        func run() throws {
            let deadline = timeout?.deadline
            do throws(PortError) {
                if isForEnd {
                    try PortNameServer.shared.waitForEnd(ofName: port.name, before: deadline)
                } else {
                    _ = try PortNameServer.shared.waitForPort(forName: port.name, before: deadline)
                }
            } catch {
                switch error {
                case .nameNotFound: throw ExitCode.timeout(error)
                case .nameInUse(let name, let owner): throw ExitCode.timeout(NotGone(name: name, owner: owner))
                case .cannotConnect where deadline.map({ $0 <= .now }) ?? false: throw ExitCode.timeout(error)
                default: throw error
                }
            }
        }
    }

    private struct NotGone: Problem {
        let name: String
        let owner: PortIdentity

        var description: String {
            "\(owner.ownerText) still has the name “\(name)”: allow more time, or end it"
        }
    }
#endif
