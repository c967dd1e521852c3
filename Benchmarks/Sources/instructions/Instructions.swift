import Glibc
import Ports
import RunLoops
import TypedPorts

/// Does one of several works as often as it is told, for `check-instructions` to count what one time costs. One thread does it all, so that
/// the count is the same each time.
///
///     instructions WORK COUNT [BYTES]
@main
struct Instructions {
    static func main() {
        let arguments = CommandLine.arguments
        guard arguments.count > 2, let count = Int(arguments[2]), count > 0,
            let size = Int(arguments.count > 3 ? arguments[3] : "32"), size >= 0
        else { return fail("usage: instructions WORK COUNT [BYTES]; the count is 1 or more") }
        do {
            try run(arguments[1], count, [UInt8](repeating: 7, count: size))
        } catch {
            fail("\(error)")
        }
        // Without the work of an exit, which frees what still waits.
        _exit(0)
    }

    private static func run(_ work: String, _ count: Int, _ payload: [UInt8]) throws {
        let port = try MachPort(queueLimit: count + 1) { message in
            sum += message.withBytes { $0.byteCount } ?? 0
            handled += 1
        }
        let right = port.sendRight
        let loop = ThreadRunLoop.current
        try port.schedule(in: loop)
        switch work {
        case "nothing":
            break
        case "send":
            for _ in 0..<count { try right.send(id: 1, bytes: payload.span.bytes) }
        case "send-and-handle":
            // A hundred at a time, in memory that is used again.
            for _ in 0..<count / 100 {
                for _ in 0..<100 { try right.send(id: 1, bytes: payload.span.bytes) }
                try serve(loop, until: handled + 100)
            }
        case "components":
            for _ in 0..<count / 100 {
                for _ in 0..<100 { try right.send(MachPort.Message(id: 1, [.bytes(payload)])) }
                try serve(loop, until: handled + 100)
            }
        case "pass":
            // The port sleeps before each message, which rings the bell.
            for _ in 0..<count {
                try right.send(id: 1, bytes: payload.span.bytes)
                try serve(loop, until: handled + 1)
            }
        case "ring", "ring-send":
            // From another runtime of the process, as from another process.
            try PortNameServer.shared.register(port, name: "instructions \(getpid())")
            let other = PortRuntime()
            let remote = try other.nameServer.port(forName: "instructions \(getpid())")
            try remote.send(id: 1, bytes: payload.span.bytes)
            while handled == 0 { _ = try loop.runInMode(.default, seconds: 1) }
            if work == "ring-send" {
                for _ in 0..<count { try remote.send(id: 1, bytes: payload.span.bytes) }
            } else {
                for _ in 0..<count / 100 {
                    for _ in 0..<100 { try remote.send(id: 1, bytes: payload.span.bytes) }
                    try serve(loop, until: handled + 100)
                }
            }
            withExtendedLifetime(other) {}
        case "typed":
            // A request and its reply, with a handler that the waiting thread's loop calls.
            let coder = CBORCoder()
            let server = try LocalMessagePort(name: nil) { _, data in
                let message = MachPort.Message(id: 0, [.bytes(data ?? [])])
                let request = try? coder.decode(Point.self, from: message)
                guard case .bytes(let reply)? = try? coder.message(request).components.first else { return nil }
                return reply
            }
            try server.schedule(in: loop)
            let client = RequestClient(server.sendRight)
            for _ in 0..<count { _ = try client.request(Point(), replyMode: .default) }
        default:
            fail("there is no work \(work)")
        }
    }

    private struct Point: PortRequest {
        typealias Reply = Point
        var id: Int32 = 7
        var name = "a port"
        var value = 2.5
    }

    nonisolated(unsafe) private static var handled = 0
    nonisolated(unsafe) private static var sum = 0

    private static func serve(_ loop: ThreadRunLoop, until count: Int) throws {
        while handled < count { _ = try loop.runInMode(.default, seconds: 0) }
        // Nothing is left, and the port closes its list.
        _ = try loop.runInMode(.default, seconds: 0)
    }

    private static func fail(_ text: String) {
        let line = "instructions: \(text)\n"
        _ = write(STDERR_FILENO, line, line.utf8.count)
        exit(1)
    }
}
