import ArgumentParser
import Glibc
import Ports
import RunLoops

/// The name of a port.
struct NameArgument: ParsableArguments {
    @Argument(
        help: "The port's name.",
        completion: .custom { _, _, _ in ((try? PortNameServer.shared.registrations()) ?? []).map(\.name).sorted() })
    var name: String

    /// The right to send to it. An owner that is there and does not answer is late, whatever else it may be.
    func right(before deadline: MonotonicInstant) throws -> MachPort.SendRight {
        let outcome = Result { () throws(PortError) in try PortNameServer.shared.port(forName: name, before: deadline) }
        if case .failure(let error) = outcome, case .cannotConnect = error, deadline.hasPassed {
            Portctl.report(error)
            throw ExitCode(3)
        }
        return try outcome.get()
    }
}

struct JSONFlag: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Write JSON.")
    var isJSON = false
}

/// What is sent.
struct MessageArguments: ParsableArguments {
    @Option(help: "What the message is about.")
    var id: UInt32 = 0

    @Argument(help: "The data; - for what comes on the standard input. Without it the message has no data.")
    var data: String?

    /// The bytes to send; nil for none.
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
                    description: "the data is too large for “\(name)”, which takes \(limit) bytes: raise its limits")
            }
        }
    }
}

private struct TooLarge: Error, CustomStringConvertible {
    let description: String
}

/// A number of seconds, with a fraction or without.
struct Seconds: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        guard let seconds = Double(argument), seconds >= 0, seconds < 1e9 else { return nil }
        duration = .seconds(seconds)
    }

    init(_ duration: Duration) { self.duration = duration }

    var defaultValueDescription: String { "\(duration / .seconds(1))" }

    var deadline: MonotonicInstant { .now + duration }
}
