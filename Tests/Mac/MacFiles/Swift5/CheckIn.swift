import DarwinNames
import Foundation
import FoundationPorts

// Listings 3-12 to 3-15 in the same calls.

let kCheckinMessage: UInt32 = 100

final class Lines: @unchecked Sendable {
    private let lock = NSLock()
    private var stored: [String] = []

    func append(_ line: String) { lock.withLock { stored.append(line) } }
    var all: [String] { lock.withLock { stored } }
}

final class Launcher: NSObject, PortDelegate {
    private let lines: Lines
    private(set) var distantPort: Port?

    init(_ lines: Lines) { self.lines = lines }

    func launchThread() {
        let myPort = NSMachPort()
        myPort.setDelegate(self)
        RunLoop.current.add(myPort, forMode: .default)
        Thread.detachNewThread { [lines] in MyWorkerClass.launchThread(withPort: myPort, lines) }
    }

    func handle(_ portMessage: PortMessage) {
        let message = portMessage.msgid
        if message == kCheckinMessage {
            lines.append("main: checked in")
            distantPort = portMessage.sendPort
            let order = PortMessage(
                sendPort: distantPort, receivePort: portMessage.receivePort, components: [Data("stop".utf8)])
            order.msgid = 101
            _ = order.send(before: Date(timeIntervalSinceNow: 10))
        } else if let data = portMessage.components?.first as? Data {
            lines.append("main: \(String(data: data, encoding: .utf8) ?? "?")")
            portMessage.receivePort?.invalidate()
        }
    }
}

final class MyWorkerClass: NSObject, PortDelegate {
    private var remotePort: Port?
    private var shouldExit = false
    private let lines: Lines

    init(_ lines: Lines) { self.lines = lines }

    class func launchThread(withPort inData: Any, _ lines: Lines) {
        autoreleasepool {
            guard let distantPort = inData as? Port else { return }
            let workerObj = MyWorkerClass(lines)
            workerObj.sendCheckinMessage(distantPort)
            repeat {
                _ = RunLoop.current.run(mode: .default, before: .distantFuture)
            } while !workerObj.shouldExit
        }
    }

    func sendCheckinMessage(_ outPort: Port) {
        remotePort = outPort
        let myPort: Port = NSMachPort()
        myPort.setDelegate(self)
        RunLoop.current.add(myPort, forMode: RunLoop.Mode.default)
        let messageObj = PortMessage(sendPort: outPort, receivePort: myPort, components: nil)
        messageObj.msgid = kCheckinMessage
        _ = messageObj.send(before: Date())
    }

    func handle(_ message: PortMessage) {
        guard let part = message.components?[0] as? NSData else { return }
        lines.append("worker: \(String(decoding: part as Data, as: UTF8.self))")
        _ = message.sendPort?.send(
            before: Date(timeIntervalSinceNow: 10), msgid: 102, components: NSMutableArray(object: Data("gone".utf8)),
            from: nil, reserved: 0)
        shouldExit = true
        message.receivePort?.invalidate()
    }
}

/// Runs it all, and returns what the two have to say.
public func checkIn() -> [String] {
    let lines = Lines()
    let launcher = Launcher(lines)
    launcher.launchThread()
    while RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 60)), lines.all.count < 3 {}
    return lines.all
}
