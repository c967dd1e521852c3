#if CommandLine
    import ArgumentParser
    import Ports

    struct Sweep: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove the files of killed processes, as programs that use ports do.")

        @OptionGroup var output: JSONFlag

        func run() throws {
            let swept = try PortNameServer.shared.sweep()
            let (count, names) = (swept.processes, swept.names.sorted())
            if output.isJSON { return print(json: Swept(processes: count, names: names)) }
            print(
                count == 0
                    ? "killed processes have left nothing"
                    : "removed what \(count) killed process\(count == 1 ? "" : "es") left")
            for name in names { print("removed the name \(name.escaped)") }
        }
    }

    private struct Swept: Encodable {
        let processes: Int
        let names: [String]
    }
#endif
