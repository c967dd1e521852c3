import Ports

extension PortNameServer.Registration {
    var json: JSON {
        .object([
            ("name", .string(name)), ("pid", .integer(Int(pid))), ("program", program.map { .string($0) } ?? .null),
            ("uid", .integer(Int(uid))), ("since", .string(time(since, isUTC: true))), ("port", .string(port)),
            ("queueLimit", .integer(queueLimit)), ("messageLimit", .integer(messageLimit)),
        ])
    }

    /// The path of the owner's program, where it is known.
    var shownProgram: String { program.map(printable) ?? "?" }
}
