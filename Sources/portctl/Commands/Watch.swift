import ArgumentParser
import Ports
import RunLoops

struct Watch: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the present names, and then names as they come (+) and go (-), until interrupted.")

    @OptionGroup var output: JSONFlag

    func run() throws {
        let watch = try PortNameWatch()
        while true {
            switch try watch.next(before: ContinuousClock.now + .seconds(1)) {
            case .came(let registration)?: show("+", "came", registration)
            case .went(let registration)?: show("-", "went", registration)
            case nil: endUnread()
            }
        }
    }

    private func show(_ sign: String, _ event: String, _ registration: PortNameServer.Registration) {
        if output.isJSON {
            print(json: Change(event: event, registration: registration))
        } else {
            print("\(sign) \(registration.name.escaped)  \(registration.pid)  \(registration.shownProgram)")
        }
    }
}

private struct Change: Encodable {
    let event: String
    let registration: PortNameServer.Registration
}

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
            case .nameNotFound, .nameInUse: throw ExitCode.timeout(error)
            case .cannotConnect where deadline.map({ $0 <= .now }) ?? false: throw ExitCode.timeout(error)
            default: throw error
            }
        }
    }
}

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
