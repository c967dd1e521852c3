import ArgumentParser
import Ports

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
        if output.isJSON { return print("\(map.json)") }
        try file.write(MapPage(PortDrawing(map)).html, default: "map.html")
    }
}

extension PortMap {
    fileprivate var json: JSON {
        .object([
            (
                "processes",
                .array(
                    processes.map {
                        .object([
                            ("pid", .integer(Int($0.pid))), ("program", .string($0.program)),
                            ("answers", .bool($0.answers)), ("ended", .bool($0.hasEnded)),
                        ])
                    })
            ),
            (
                "ports",
                .array(
                    ports.map {
                        .object([
                            ("id", .string($0.id)), ("names", .array($0.names.map { .string($0) })),
                            ("owner", .integer(Int($0.owner))), ("state", .string($0.service?.condition.rawValue)),
                            ("service", $0.service?.json ?? .string(nil)),
                        ])
                    })
            ),
            (
                "edges",
                .array(
                    edges.map {
                        .object([
                            ("sender", .integer(Int($0.sender))), ("port", .string($0.port)),
                            ("sent", .integer($0.sent)),
                            ("recently", .integer($0.recently)), ("awaitedReplies", .integer($0.awaitedReplies)),
                            ("waitingSenders", .integer($0.waitingSenders)),
                        ])
                    })
            ),
        ])
    }
}
