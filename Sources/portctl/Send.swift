import ArgumentParser
import Glibc
import Ports

struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a message, and want no reply.", usage: "portctl send NAME [--id N] [DATA | -] [--timeout S]")

    @OptionGroup var port: NameArgument
    @OptionGroup var message: MessageArguments
    @Option(help: "How many seconds to wait for room at the port.")
    var timeout = Seconds(.seconds(10))

    func run() throws {
        let remote = try RemoteMessagePort(name: port.name)
        try remote.send(id: message.id, message.bytes(), timeout: timeout.duration)
    }
}

struct Request: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a request to a message port, and write its reply's data.",
        usage: "portctl request NAME [--id N] [DATA | -] [--timeout S]")

    @OptionGroup var port: NameArgument
    @OptionGroup var message: MessageArguments
    @Option(help: "How many seconds to wait for room at the port, and again for the reply.")
    var timeout = Seconds(.seconds(10))
    @OptionGroup var output: JSONFlag

    func run() throws {
        let remote = try RemoteMessagePort(name: port.name)
        let reply = try remote.request(
            id: message.id, message.bytes(), sendTimeout: timeout.duration, replyTimeout: timeout.duration)
        if output.isJSON { return print("\(json(reply))") }
        guard let reply, !reply.isEmpty else { return }
        write(reply)
        // For a person, not for a program.
        if isatty(STDOUT_FILENO) == 1, reply.last != UInt8(ascii: "\n") { print("") }
    }

    private func json(_ reply: [UInt8]?) -> JSON {
        guard let reply else { return .object([("data", .null)]) }
        if let text = String(validating: reply, as: UTF8.self) { return .object([("data", .string(text))]) }
        let digits = reply.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        return .object([("hex", .string(digits.joined()))])
    }
}
