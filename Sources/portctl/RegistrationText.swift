import Ports
import RunLoops

extension PortNameServer.Registration {
    var members: [(String, JSON)] {
        [
            ("name", .string(name)), ("pid", .integer(Int(pid))), ("program", .string(program)),
            ("uid", .integer(Int(uid))), ("since", .string(time(since, isUTC: true))), ("port", .string("\(port.id)")),
            ("queueLimit", .integer(queueLimit)), ("byteLimit", .integer(byteLimit)),
            ("messageLimit", .integer(messageLimit)),
        ]
    }

    var shownProgram: String { program.map(\.escaped) ?? "?" }
}
