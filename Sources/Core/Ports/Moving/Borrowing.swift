import Glibc
import RunLoops

/// The lender of a port, as the borrower knows it: where the port goes back to, and the port that takes the rings.
final class PortBorrowing: PortLender {
    private let standby: PortID
    private let desk: MachPort.SendRight

    init(_ standby: PortID, _ desk: MachPort.SendRight) { (self.standby, self.desk) = (standby, desk) }

    var isThere: Bool { desk.isValid }

    /// Learns the lender's end.
    func watch() { desk.channel.watch() }

    /// The time in which a lender has to take a ring. A sender that waits for the ring goes on by ZeroMQ then.
    private static let patience = Duration.seconds(2)

    func keep(
        _ memory: OwnedDescriptor, of peer: Incarnation, _ sender: SenderCredentials, at home: PortID,
        then: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        do throws(PortError) {
            let copy = try MessageDescriptor(duplicating: memory.number)
            let message = MachPort.Message(ring: copy, of: peer, sender, at: home)
            try desk.post(message, before: .now + Self.patience) { [self] error in
                // By ZeroMQ the message could come after the news of this process's end.
                then(error == nil && desk.channel.hasRing || !isThere)
            }
        } catch {
            then(!isThere)
        }
    }

    /// The lender, for the next owner of the port.
    var components: [MachPort.Message.Component] { MachPort.Message.components(standby, desk) }
}

// The lender in the first message of a move, and a ring in a message to it.
extension MachPort.Message {
    /// - Parameters:
    ///   - standby: The port at the lender that takes the place of the lent one.
    ///   - desk: The port of the lender that takes the rings.
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

    init(ring memory: MessageDescriptor, of peer: Incarnation, _ sender: SenderCredentials, at home: PortID) {
        let names = ["\(peer)", home.file].map { Component.bytes(Array($0.utf8)) }
        self.init(.ring, [Self.bytes(of: sender.numbers)] + names + [.descriptor(memory)])
    }

    /// The ring that a borrower has made; nil when this is none, or its memory has not come.
    var ring: LentRing? {
        let facts = numbers
        guard step == .ring, facts.count == 2, let peer = text(ofComponent: 1).flatMap({ Incarnation($0) }),
            let home = text(ofComponent: 2).flatMap({ PortID(file: $0) }),
            let memory = descriptor(ofComponent: 3), let number = try? memory.take()
        else { return nil }
        return LentRing(
            memory: OwnedDescriptor(number), peer: peer, sender: SenderCredentials(facts[0], facts[1]), home: home)
    }
}

/// A ring to a lent port, as the lender has it.
struct LentRing {
    let memory: OwnedDescriptor
    let peer: Incarnation
    let sender: SenderCredentials
    /// The port at the borrower that has made the ring.
    let home: PortID

    /// The ring, when its receiver is gone. Nothing more is sent by it.
    /// - Parameter deadline: The end of the attempts to read it. Perhaps there is no memory for the moment.
    func left(_ messageLimit: Int, queueLimit: Int, until deadline: MonotonicInstant = .distantPast) -> LeftRing? {
        while true {
            let ring = LeftRing(memory, of: sender, queueLimit: queueLimit, messageLimit: messageLimit)
            if ring != nil || deadline.hasPassed { return ring }
            usleep(10_000)
        }
    }

    /// Whether its receiver has ended the ring, and has taken everything.
    var isOver: Bool {
        RingMemory.withWords(of: memory.number) { $0.isOver } ?? false
    }
}
