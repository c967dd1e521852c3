import Foundation
import FoundationPorts

final class MachDelegate: NSObject, NSMachPortDelegate {
    var count = 0
    func handleMachMessage(_ msg: UnsafeMutableRawPointer) { count -= 1 }
    func handle(_ message: PortMessage) { count += 1 }
}

@MainActor final class MainController: NSObject {
    private var port: NSMachPort?
    private let relay = MachDelegate()

    func open() -> mach_port_t {
        let port = NSMachPort()
        port.setDelegate(relay)
        RunLoop.main.add(port, forMode: .common)
        self.port = port
        return port.machPort
    }

    func close() { port?.invalidate() }
}

/// Ports made of numbers and options, and messages between objects of the same.
public func machPorts() -> Bool {
    let (one, relay) = (NSMachPort(), MachDelegate())
    one.setDelegate(relay)
    let same = NSMachPort(machPort: one.machPort)
    let again = NSMachPort(machPort: one.machPort, options: [])
    let third = NSMachPort.port(withMachPort: one.machPort)
    let loop = RunLoop.current
    loop.add(same, forMode: .default)
    for port in [one, again, third] where !port.send(before: Date(), components: nil, from: nil, reserved: 0) {
        return false
    }
    let parts: [Any] = [Data(), one]
    let last = PortMessage(send: third, receive: nil, components: parts)
    last.msgid = UInt32(4)
    guard last.send(before: .distantFuture), one == third, one.delegate() === relay else { return false }
    while relay.count < 4, loop.run(mode: .default, before: Date(timeIntervalSinceNow: 60)) {}
    loop.remove(one, forMode: .default)
    one.invalidate()
    return relay.count == 4 && !same.isValid && one.machPort == 0
}
