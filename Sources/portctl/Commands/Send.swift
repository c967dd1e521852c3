import ArgumentParser
import Glibc
import Ports

struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a message without wanting a reply.",
        usage: "portctl send NAME [--id N] [DATA | -] [--timeout S]")

    @OptionGroup var port: NameArgument
    @OptionGroup var message: MessageArguments
    @Option(seconds: "Seconds to wait for the owner, and again for room at the port.")
    var timeout = Seconds(.seconds(10))

    func run() throws {
        let right = try port.right(before: timeout.deadline)
        let bytes = try message.bytes(upTo: right.messageLimit, for: port.name)
        try RemoteMessagePort(right).send(id: message.id, bytes, timeout: timeout.duration)
    }
}

struct Request: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a request to a message port, and write its reply's data.",
        usage: "portctl request NAME [--id N] [DATA | -] [--timeout S] [--json]")

    @OptionGroup var port: NameArgument
    @OptionGroup var message: MessageArguments
    @Option(seconds: "Seconds to wait for the owner, for room at the port, and for the reply.")
    var timeout = Seconds(.seconds(10))
    @OptionGroup var output: JSONFlag

    func run() throws {
        let right = try port.right(before: timeout.deadline)
        let bytes = try message.bytes(upTo: right.messageLimit, for: port.name)
        let reply = try RemoteMessagePort(right).request(
            id: message.id, bytes, timeout: timeout.duration)
        if output.isJSON { return showJSON(reply) }
        guard let reply, !reply.isEmpty else { return }
        write(reply)
        // A person at a terminal gets a newline, a program only the reply.
        if isatty(STDOUT_FILENO) == 1, reply.last != UInt8(ascii: "\n") { print("") }
    }

    private func showJSON(_ reply: [UInt8]?) {
        let text = reply.map { String(validating: $0, as: UTF8.self) }
        if let reply, text == .some(nil) {
            print(json: ["hex": reply.map { padded(Int($0), radix: 16, to: 2) }.joined()])
        } else {
            print(json: ["data": text ?? nil])
        }
    }
}

struct MessageArguments: ParsableArguments {
    @Option(help: "The message's id.")
    var id: UInt32 = 0

    @Argument(help: "The data; - reads the standard input. Without this argument the message has no data.")
    var data: String?

    fileprivate func bytes(upTo limit: Int, for name: String) throws -> [UInt8]? {
        guard data == "-" else { return data.map { Array($0.utf8) } }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw PortError.transport(call: "read of the standard input", errno: errno) }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= limit else {
                throw TooLarge(
                    description: "the data is too large for “\(name)”, which takes \(limit) bytes: raise its limits")
            }
        }
    }
}

private struct TooLarge: Problem { let description: String }
