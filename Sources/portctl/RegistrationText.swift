import Ports
import RunLoops

extension PortNameServer.Registration {
    func json(_ statistics: MachPort.Statistics?) -> JSON {
        .object(members + [("waiting", .integer(statistics?.waiting)), ("received", .integer(statistics?.received))])
    }

    func statistics() -> MachPort.Statistics? {
        let deadline = ContinuousClock.now + .milliseconds(300)
        let right = try? PortNameServer.shared.port(forName: name, before: deadline)
        return try? right?.statistics(before: deadline)
    }

    var members: [(String, JSON)] {
        [
            ("name", .string(name)), ("pid", .integer(Int(pid))), ("program", .string(program)),
            ("uid", .integer(Int(uid))), ("since", .string(time(since, isUTC: true))), ("port", .string(port)),
            ("queueLimit", .integer(queueLimit)), ("byteLimit", .integer(byteLimit)),
            ("messageLimit", .integer(messageLimit)),
        ]
    }

    var shownProgram: String { program.map(printable) ?? "?" }
}
