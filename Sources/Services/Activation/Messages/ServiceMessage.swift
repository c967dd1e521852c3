import Ports

/// The messages between an activator and a service that it has started.
enum ServiceMessage {
    /// Set in the environment of a service.
    static let variable = "PORTS_ACTIVATED"
    private static let lent: UInt32 = 110
    static let ready: UInt32 = 111
    static let giveBack: UInt32 = 112
    private static let taken: UInt32 = 113

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

    /// Says how many messages the service has taken, after it has given its port back.
    static func taken(_ count: Int) -> MachPort.Message {
        MachPort.Message(id: taken, [.bytes(Array("\(count)".utf8))])
    }

    /// The number in a message of ``taken(_:)``; nil for another message.
    static func taken(_ message: MachPort.Message) -> Int? {
        message.id == taken ? message.text(ofComponent: 0).flatMap { Int($0) } : nil
    }
}
