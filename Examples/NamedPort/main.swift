@preconcurrency import Glibc  // for stderr
import Ports
import RunLoops

// The guide's listing 3-16, between two processes: the first registers its port under a name, and the second, which is
// this program once more and knows nothing but the name, finds it.

func runFirst() throws {
    let port = try MachPort { message in
        let whose = message.sender?.pid == getpid() ? "my own" : "another"
        say("First: “\(text(of: message))”, from \(whose) process. I answer at the port that came with it.")
        try? message.replyPort?.send(MachPort.Message(id: 2, [.bytes(Array("Hello, second!".utf8))]))
    }
    try port.schedule(in: .main)

    // Others may run this program at the same time.
    let name = "com.example.named-port.\(getpid())"
    say("First: I register my port under a name, and run this program again with the name.")
    try PortNameServer.shared.register(port, name: name)
    let child = try runAgain(name)
    try ThreadRunLoop.main.add(
        .child(child) { status in
            say("First: the second \(status).")
            ThreadRunLoop.main.stop()
        })
    try ThreadRunLoop.main.run()

    say("First: I take the name back from my port.")
    try PortNameServer.shared.remove(port, name: name)
    do {
        _ = try PortNameServer.shared.port(forName: name)
    } catch PortError.nameNotFound {
        say("First: now nobody has it.")
    }
}

func runSecond(_ name: String) throws {
    say("Second: I look the name up.")
    let port = try PortNameServer.shared.port(forName: name)
    say("Second: I write to the port that has it, with a port of mine for the answer.")
    let mine = try MachPort()
    try port.send(MachPort.Message(id: 1, [.bytes(Array("Hello, first!".utf8))], replyPort: mine.sendRight))
    let answer = try mine.receive(before: .now + .seconds(5))
    say("Second: “\(text(of: answer))”. I exit.")
}

func text(of message: MachPort.Message) -> String {
    guard case .bytes(let bytes)? = message.components.first else { return "" }
    return String(decoding: bytes, as: UTF8.self)
}

do {
    switch CommandLine.arguments.count {
    case 1: try runFirst()
    case 2: try runSecond(CommandLine.arguments[1])
    default:
        fputs("usage: named-port [NAME]\n", stderr)
        exit(64)
    }
} catch {
    fputs("named-port: \(error)\n", stderr)
    exit(1)
}
