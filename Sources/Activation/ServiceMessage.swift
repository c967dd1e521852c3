import Ports

/// The messages between an activator and a service that it has started.
enum ServiceMessage {
    /// Set in the environment of a service.
    static let variable = "PORTS_ACTIVATED"
    private static let lent: UInt32 = 110
    static let ready: UInt32 = 111
    static let giveBack: UInt32 = 112

    /// Lends the service its port.
    static func lend(_ right: MachPort.ReceiveRight, idleTime: Duration?) -> MachPort.Message {
        let time = idleTime.map { "\(Int($0 / .milliseconds(1)))" } ?? ""
        return MachPort.Message(id: lent, [.receiveRight(right), .bytes(Array(time.utf8))])
    }

    /// The port and the time in a message of ``lend(_:idleTime:)``; nil for another message.
    static func lent(_ message: MachPort.Message) -> (right: MachPort.ReceiveRight, idleTime: Duration?)? {
        guard message.id == lent, let right = message.receiveRight(ofComponent: 0) else { return nil }
        let time = message.text(ofComponent: 1).flatMap { Int($0) }
        return (right, time.map { .milliseconds($0) })
    }
}
