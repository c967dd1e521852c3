#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports

    struct Request: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a request to a message port, and write its reply's data.",
            usage: "portctl request NAME [--id N] [DATA | -] [--timeout S] [--nats URL] [--json]")

        @OptionGroup var port: NameArgument
        @OptionGroup var message: MessageArguments
        @Option(seconds: "Seconds to wait for the owner, for room at the port, and for the reply.")
        var timeout = Seconds(.seconds(10))
        @OptionGroup var nats: NATSOption
        @OptionGroup var output: JSONFlag

        func run() throws {
            let reply = try reply()
            if output.isJSON { return showJSON(reply) }
            guard let reply, !reply.isEmpty else { return }
            write(reply)
            // A person at a terminal gets a newline, a program only the reply.
            if isatty(STDOUT_FILENO) == 1, reply.last != UInt8(ascii: "\n") { print("") }
        }

        private func reply() throws -> [UInt8]? {
            if let connection = try nats.connection() { return try reply(by: connection) }
            let right = try port.right(before: timeout.deadline)
            let bytes = try message.bytes(upTo: right.messageLimit, for: port.name)
            return try RemoteMessagePort(right).request(id: message.id, bytes, timeout: timeout.duration)
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
#endif
