import CoreFoundation
import Dispatch
import Foundation
import FoundationPorts
import Ports
import RunLoops
import TypedPorts

// Each name means what it means where only one of the modules is imported.

/// Uses a bit of each module.
public func everything() throws -> Bool {
    let timer: Timer = Foundation.Timer(timeInterval: 1000, repeats: false) { _ in }
    RunLoop.current.add(timer, forMode: .default)
    defer { timer.invalidate() }
    let own = ThreadRunLoop.Timer(after: .seconds(1000)) { _ in }
    try ThreadRunLoop.current.add(own)
    defer { own.invalidate() }

    let port: Port = NSMachPort()
    let ports = [Port](arrayLiteral: port, MessagePort())
    defer { for port in ports { port.invalidate() } }
    let machPort = try MachPort()
    try machPort.schedule(in: .current)
    try machPort.schedule(in: .current, forMode: .default)
    try machPort.schedule(in: RunLoop.current, forMode: .default)
    machPort.remove(from: RunLoop.current, forMode: .default)
    machPort.remove(from: .current, forMode: .default)
    defer { machPort.invalidate() }

    let message = MachPort.Message(id: 1, bytes: Data([1, 2]))
    let foundation = PortMessage(sendPort: NSMachPort(machPort.sendRight), receivePort: port, components: nil)
    guard foundation.send(before: .distantFuture) else { return false }
    try machPort.sendRight.send(message)
    let first = try machPort.receive(before: .now + .seconds(10))
    let second = try machPort.receive(before: .now + .seconds(10))

    let names = PortNameServer.shared
    let server: MessagePortNameServer = PortNameServer.systemDefault()
    let remote = { () throws(PortError) -> (any Error)? in
        do throws(PortError) {
            _ = try RemoteMessagePort(name: "com.example.nobody.\(getpid())", nameServer: names)
            return nil
        } catch { return error }
    }
    guard try remote() != nil, server.port(forName: "com.example.nobody") == nil else { return false }
    let loop: CFRunLoop = RunLoop.current.getCFRunLoop()
    let queue = DispatchQueue(label: "mixed")
    return queue.sync { true } && CFEqual(loop, CFRunLoopGetCurrent()) && first.id == 0 && second.id == 1
        && first.replyPort == (port as? NSMachPort)?.sendRight
}
