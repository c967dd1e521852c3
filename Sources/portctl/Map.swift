import ArgumentParser
import Ports
import PortsInspection

struct Map: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Draw for a browser which processes send to which named ports, and which ports are in trouble.")

    @OptionGroup var file: PageFile
    @Option(seconds: "Seconds to wait for owners that do not answer.")
    var timeout = Seconds(.seconds(2))
    @OptionGroup var output: JSONFlag

    func run() throws {
        if !output.isJSON { try file.check(default: "map.html") }
        let timeout = timeout.duration
        let map = try awaited { try await PortNameServer.shared.map(before: .now + timeout) }
        if output.isJSON { return print(json: map) }
        try file.write(MapPage(PortDrawing(map)).html, default: "map.html")
    }
}
