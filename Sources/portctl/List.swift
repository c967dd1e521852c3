import ArgumentParser
import Ports

struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show all names, their owners, and how many messages wait.")

    @OptionGroup var output: JSONFlag

    func run() throws {
        let found = try PortNameServer.shared.registrations().sorted { $0.name < $1.name }
        if output.isJSON { return print("\(JSON.array(found.map { $0.json($0.statistics()) }))") }
        guard !found.isEmpty else { return }
        print(
            table: [["NAME", "PID", "UID", "SINCE", "WAITING", "PROGRAM"]]
                + found.map { found in
                    [
                        printable(found.name), "\(found.pid)", "\(found.uid)", time(found.since),
                        found.statistics().map { "\($0.waiting)" } ?? "?", found.shownProgram,
                    ]
                })
    }
}

struct Info: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show all facts of the registry and the owner about a name.")

    @OptionGroup var port: NameArgument
    @OptionGroup var output: JSONFlag

    func run() throws {
        guard let found = try PortNameServer.shared.registration(forName: port.name) else {
            throw PortError.nameNotFound(port.name, directory: PortNameServer.shared.path)
        }
        let statistics = found.statistics()
        if output.isJSON { return print("\(found.json(statistics))") }
        print(table: [
            ["name", printable(found.name)], ["port", found.port], ["owner", "process \(found.pid)"],
            ["program", found.shownProgram], ["uid", "\(found.uid)"], ["since", time(found.since)],
            ["queue", "\(found.queueLimit) messages of each sender"],
            ["bytes", found.byteLimit.map { "\($0) of each sender" } ?? "any number"],
            ["largest", "messages of \(found.messageLimit) bytes"],
            ["waiting", statistics.map { "\($0.waiting) messages" } ?? "its owner does not say"],
            ["received", statistics.map { "\($0.received) messages" } ?? "its owner does not say"],
        ])
    }
}
