#if CommandLine
    import ArgumentParser
    import Ports
    import PortsInspection

    struct Map: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Draw which processes send to which named ports, and which ports are in trouble.",
            discussion:
                "The formats: html is a page for a browser, in map.html unless -o names a file. dot is a graph for Graphviz."
        )

        enum Format: String, ExpressibleByArgument, CaseIterable { case html, dot, json }

        @Option(help: "The format. (default: html)")
        var format: Format?
        @OptionGroup var file: OutputOption
        @Option(seconds: "Seconds to wait for owners that do not answer.")
        var timeout = Seconds(.seconds(2))
        @OptionGroup var output: JSONFlag

        func run() throws {
            let format = try output.format(format, json: .json, default: .html)
            let file = try file.file(default: format == .html ? "map.html" : "-")
            let timeout = timeout.duration
            let map = try awaited { try await PortNameServer.shared.map(before: .now + timeout) }
            switch format {
            case .html: try file.write(Page.map.html(of: PortDrawing(map)), use: "open it in a browser")
            case .dot: try file.write(PortDrawing(map).dot)
            case .json: try file.write(json(map) + "\n")
            }
        }
    }
#endif
