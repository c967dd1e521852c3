import Foundation
import FoundationPorts

// The guide's listing 3-16 as it is written on macOS, between two processes: the first registers its port under a name,
// and the second, which is this program once more and knows nothing but the name, finds it.

/// Both processes write to one output, each line at once.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

var hasSecondEnded = false

@MainActor func runFirst() throws {
    let first = Receiver { message in
        say("First: “\(message.text)”. I answer at the port that came with it.")
        let answer = PortMessage(
            sendPort: message.sendPort, receivePort: nil, components: [Data("Hello, second!".utf8)])
        if !answer.send(before: Date(timeIntervalSinceNow: 5)) { say("First: the second is gone.") }
    }

    // Register the port using a specific name. The name must be unique.
    let localPortName = "com.example.foundation-message-ports.\(ProcessInfo.processInfo.processIdentifier)"
    say("First: I register my port under a name, and run this program again with the name.")
    guard MessagePortNameServer.sharedInstance().registerPort(first.localPort, name: localPortName) else {
        return say("First: I cannot have the name.")
    }
    let second = Process()
    second.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    second.arguments = [localPortName]
    second.terminationHandler = { _ in DispatchQueue.main.async { hasSecondEnded = true } }
    try second.run()
    while !hasSecondEnded, RunLoop.current.run(mode: .default, before: .distantFuture) {}
    say("First: the second has exited with status \(second.terminationStatus). I take the name back from my port.")
    MessagePortNameServer.sharedInstance().removePort(forName: localPortName)
    if MessagePortNameServer.sharedInstance().port(forName: localPortName) == nil { say("First: now nobody has it.") }
    first.localPort.invalidate()
}

func runSecond(_ name: String) {
    say("Second: I look the name up.")
    guard let distantPort = MessagePortNameServer.sharedInstance().port(forName: name) else {
        return say("Second: nobody has it.")
    }
    say("Second: I write to the port that has it, with a port of mine for the answer.")
    var isAnswered = false
    let second = Receiver { message in
        say("Second: “\(message.text)”. I exit.")
        isAnswered = true
    }
    let message = PortMessage(
        sendPort: distantPort, receivePort: second.localPort, components: [Data("Hello, first!".utf8)])
    let isSent = message.send(before: Date(timeIntervalSinceNow: 5))
    while isSent, !isAnswered, RunLoop.current.run(mode: .default, before: .distantFuture) {}
}

if CommandLine.arguments.count == 2 { runSecond(CommandLine.arguments[1]) } else { try runFirst() }
