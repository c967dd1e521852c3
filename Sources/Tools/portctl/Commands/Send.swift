#if CommandLine
    import ArgumentParser
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
#endif
