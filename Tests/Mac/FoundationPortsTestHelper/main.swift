import Foundation
import FoundationPorts
import Ports

// The other processes of the tests, whose main thread runs Foundation's loop.

// The process ends even if its test does not.
alarm(150)

final class Receiver: NSObject, PortDelegate {
    private let handler: (PortMessage) -> Void
    init(_ handler: @escaping (PortMessage) -> Void) { self.handler = handler }
    func handle(_ message: PortMessage) { handler(message) }
}

extension Port {
    func send(_ id: Int, _ number: Int, from port: Port? = nil) -> Bool {
        let components = NSMutableArray(object: withUnsafeBytes(of: number) { Data($0) })
        return send(
            before: Date(timeIntervalSinceNow: 60), msgid: id, components: components, from: port, reserved: 0)
    }
}

func runForEver() -> Never {
    while RunLoop.current.run(mode: .default, before: .distantFuture) {}
    exit(0)
}

switch CommandLine.arguments.dropFirst().first {
case "echo":
    let port = MessagePort()
    let receiver = Receiver { message in
        let answer = PortMessage(
            sendPort: message.sendPort, receivePort: message.receivePort, components: message.components)
        answer.msgid = message.msgid
        _ = answer.send(before: Date(timeIntervalSinceNow: 60))
    }
    port.setDelegate(receiver)
    RunLoop.main.add(port, forMode: .common)
    guard MessagePortNameServer.sharedInstance().registerPort(port, name: "echo") else { exit(2) }
    // The test waits for the first message.
    guard let test = MessagePortNameServer.sharedInstance().port(forName: "test") else { exit(3) }
    _ = test.send(1, 0, from: port)
    runForEver()

case "failures":
    // Each result has no room for the reason.
    let port = NSMachPort()
    let isRemote = CFMessagePortCreateRemote(nil, "nobody" as CFString) != nil
    let isFound = MessagePortNameServer.sharedInstance().port(forName: "nobody") != nil
    let isRegistered = MessagePortNameServer.sharedInstance().registerPort(port, name: "port")
    let message = PortMessage(send: port, receive: nil, components: [Date()])
    let isSent = message.send(before: Date(timeIntervalSinceNow: 60))
    exit(isRemote || isFound || isRegistered || isSent ? 1 : 0)

case "flood":
    guard let test = NSMachBootstrapServer.sharedInstance().port(forName: "test") else { exit(3) }
    for number in 0... where !test.send(2, number) { exit(0) }

case "fair":
    // A main thread with a port, a main queue and timers that all have something to do all the time.
    let each = 300
    var trace: [Character] = []
    let port = NSMachPort()
    let receiver = Receiver { message in
        trace.append("p")
        if message.msgid < each { _ = message.receivePort?.send(Int(message.msgid) + 1, 0) }
    }
    port.setDelegate(receiver)
    RunLoop.main.add(port, forMode: .default)
    func queue(_ count: Int) {
        DispatchQueue.main.async {
            trace.append("q")
            if count < each { queue(count + 1) }
        }
    }
    var fired = 0
    let timer = Timer(timeInterval: 0.0001, repeats: true) { timer in
        MainActor.assumeIsolated {
            trace.append("t")
            fired += 1
        }
    }
    RunLoop.main.add(timer, forMode: .default)
    queue(1)
    _ = port.send(1, 0)
    let end = Date(timeIntervalSinceNow: 60)
    func count(_ kind: Character) -> Int { trace.count { $0 == kind } }
    while count("p") < each || count("q") < each || fired < 10, Date.now < end {
        _ = RunLoop.main.run(mode: .default, before: end)
    }
    print(String(trace))

default:
    exit(64)
}
