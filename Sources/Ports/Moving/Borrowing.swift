import RunLoops

/// The lender of a port, as the borrower knows it: where the port goes back to, and the port that takes the lanes.
final class PortBorrowing: PortLender {
    private let standby: PortID
    private let desk: MachPort.SendRight

    init(_ standby: PortID, _ desk: MachPort.SendRight) { (self.standby, self.desk) = (standby, desk) }

    var isThere: Bool { desk.isValid }

    /// Learns the lender's end.
    func watch() { desk.channel.watch() }

    /// The time in which a lender has to take a lane. A sender that waits for the lane goes on by ZeroMQ then.
    private static let patience = Duration.seconds(2)

    func keep(
        _ memory: OwnedDescriptor, of peer: Incarnation, _ sender: MessageSender, at home: PortID,
        then: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        do throws(PortError) {
            let copy = try MessageDescriptor(duplicating: memory.number)
            let message = MachPort.Message(lane: copy, of: peer, sender, at: home)
            try desk.post(message, before: .now + Self.patience) { error in
                then(error == nil || !self.isThere)
            }
        } catch {
            then(!isThere)
        }
    }

    /// The lender, for the next owner of the port.
    var components: [MachPort.Message.Component] { MachPort.Message.components(standby, desk) }
}

// The lender in the first message of a move, and a lane in a message to it.
extension MachPort.Message {
    /// - Parameters:
    ///   - standby: The port at the lender that takes the place of the lent one.
    ///   - desk: The port of the lender that takes the lanes.
    static func components(_ standby: PortID, _ desk: MachPort.SendRight) -> [Component] {
        [.bytes(Array(standby.file.utf8)), .port(desk)]
    }

    /// The lender in the components from an index on.
    func lender(from index: Int) -> PortBorrowing? {
        guard let file = text(ofComponent: index), let standby = PortID(file: file),
            let desk = port(ofComponent: index + 1)
        else { return nil }
        return PortBorrowing(standby, desk)
    }

    init(lane memory: MessageDescriptor, of peer: Incarnation, _ sender: MessageSender, at home: PortID) {
        let names = ["\(peer)", home.file].map { Component.bytes(Array($0.utf8)) }
        self.init(.lane, [Self.bytes(of: sender.numbers)] + names + [.descriptor(memory)])
    }

    /// The lane that a borrower has made; nil when this is none, or its memory has not come.
    var lane: LentLane? {
        let facts = numbers
        guard step == .lane, facts.count == 2, let peer = text(ofComponent: 1).flatMap({ Incarnation($0) }),
            let home = text(ofComponent: 2).flatMap({ PortID(file: $0) }),
            let memory = descriptor(ofComponent: 3), let number = try? memory.take()
        else { return nil }
        return LentLane(
            memory: OwnedDescriptor(number), peer: peer, sender: MessageSender(facts[0], facts[1]), home: home)
    }
}

/// A lane to a lent port, as the lender has it.
struct LentLane {
    let memory: OwnedDescriptor
    let peer: Incarnation
    let sender: MessageSender
    /// The port at the borrower that has made the lane.
    let home: PortID

    /// The lane, when its receiver is gone. Nothing more is sent by it.
    func left(_ messageLimit: Int, queueLimit: Int) -> LeftLane? {
        LeftLane(memory, of: sender, queueLimit: queueLimit, messageLimit: messageLimit)
    }

    /// Whether its receiver has ended the lane, and has taken everything.
    var isOver: Bool {
        LaneMemory.withWords(of: memory.number) { $0.isOver } ?? false
    }
}
