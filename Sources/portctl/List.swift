import ArgumentParser
import Ports

struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show all names, and whose they are.")

    @OptionGroup var output: JSONFlag

    func run() throws {
        let found = try PortNameServer.shared.registrations().sorted { $0.name < $1.name }
        if output.isJSON { return print("\(JSON.array(found.map(\.json)))") }
        guard !found.isEmpty else { return }
        print(
            table: [["NAME", "PID", "UID", "SINCE", "PROGRAM"]]
                + found.map { [printable($0.name), "\($0.pid)", "\($0.uid)", time($0.since), $0.shownProgram] })
    }
}

struct Info: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show all that the registry says about a name.")

    @OptionGroup var port: NameArgument
    @OptionGroup var output: JSONFlag

    func run() throws {
        guard let found = try PortNameServer.shared.registration(forName: port.name) else {
            throw PortError.nameNotFound(port.name, directory: PortNameServer.shared.path)
        }
        if output.isJSON { return print("\(found.json)") }
        print(table: [
            ["name", printable(found.name)], ["port", found.port], ["owner", "process \(found.pid)"],
            ["program", found.shownProgram], ["uid", "\(found.uid)"], ["since", time(found.since)],
            ["queue", "\(found.queueLimit) messages of each sender"],
            ["largest", "messages of \(found.messageLimit) bytes"],
        ])
    }
}
