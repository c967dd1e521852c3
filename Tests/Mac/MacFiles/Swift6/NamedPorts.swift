import Foundation
import FoundationPorts

// Listing 3-16, and what looks the name up.

class NamedServer: NSObject, PortDelegate {
    let localPort = MessagePort()
    var received: [PortMessage] = []

    init?(name: String) {
        super.init()
        localPort.setDelegate(self)
        RunLoop.current.add(localPort, forMode: .common)
        guard MessagePortNameServer.sharedInstance().registerPort(localPort, name: name) else { return nil }
    }

    deinit { localPort.invalidate() }

    func handle(_ message: PortMessage) {
        received.append(message)
        if let sender = message.sendPort {
            let answer = PortMessage(send: sender, receive: localPort, components: message.components)
            answer.msgid = message.msgid + 1
            _ = answer.send(before: Date.distantFuture)
        }
    }
}

final class Client: NSObject, PortDelegate {
    private let port: Port = MessagePort()
    private(set) var answer: (UInt32, [Data])?

    override init() {
        super.init()
        port.setDelegate(self)
        port.schedule(in: RunLoop.current, forMode: .default)
    }

    func ask(_ name: String, _ id: Int, _ parts: [Data]) -> Bool {
        // As macOS has it, the shared instance is of any type.
        let server = MessagePortNameServer.sharedInstance() as Any
        guard let names = server as? MessagePortNameServer, let remote = names.port(forName: name, host: nil) else {
            return false
        }
        return remote.send(
            before: Date(timeIntervalSinceNow: 5), msgid: id, components: NSMutableArray(array: parts), from: port,
            reserved: remote.reservedSpaceLength)
    }

    func handle(_ message: PortMessage) {
        var parts: [Data] = []
        for case let data as Data in message.components ?? [] { parts.append(data) }
        answer = (message.msgid, parts)
    }
}

/// The answer to a message by name; nil without.
public func askByName(_ name: String) -> (UInt32, [Data])? {
    guard let server = NamedServer(name: name) else { return nil }
    let client = Client()
    guard client.ask(name, 7, [Data([1]), Data([2, 3])]) else { return nil }
    let end = Date(timeIntervalSinceNow: 60)
    while client.answer == nil, RunLoop.current.run(mode: RunLoop.Mode.default, before: end) {}
    MessagePortNameServer.sharedInstance().removePort(forName: name)
    let isGone = PortNameServer.systemDefault().port(forName: name) == nil
    server.localPort.invalidate()
    return isGone && server.received.count == 1 ? client.answer : nil
}
