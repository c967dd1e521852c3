#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports

    struct MessageArguments: ParsableArguments {
        @Option(
            parsing: .unconditional, help: "The message's id, from 0 to 4294967295. (default: 0)",
            transform: { word in
                guard let id = UInt32(word) else { throw ValidationError("an id is a number from 0 to \(UInt32.max)") }
                return id
            })
        var id: UInt32 = 0

        @Argument(help: "The data; - reads the standard input. Without this argument the message has no data.")
        var data: String?

        func bytes(upTo limit: Int, for name: String) throws -> [UInt8]? {
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
                        description: "the data is too large for “\(name)”, which takes \(limit) bytes: raise its limits"
                    )
                }
            }
        }
    }

    private struct TooLarge: Problem { let description: String }
#endif
