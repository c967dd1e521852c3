import RunLoops

// The messages between the owner of a port that moves and its next owner. Their first component says what they bring.

/// The ids of the messages.
enum MovingStep: UInt32 {
    /// From the next owner, to the port that offers the other one: I want it. The reply port takes what comes.
    case claim = 1
    /// From the owner: this is the port. The reply port takes the answers.
    case begin
    /// From the next owner: the port has this number here.
    case ready
    /// From the owner: a message that waited at the port, and the port for its reply.
    case message
    /// From the owner: that was all. These are the names.
    case complete
    /// From the next owner: it is mine.
    case taken
    /// From either: it stays where it is, for this reason.
    case failed
    /// From the borrower of a port, to its lender: this is the memory of a ring.
    case ring
}

extension MachPort.Message {
    init(_ step: MovingStep, _ components: [Component] = [], replyPort: MachPort.SendRight? = nil) {
        self.init(id: step.rawValue, components, replyPort: replyPort)
    }

    /// The reason in a message that says that the port stays.
    init(failed error: PortError) {
        let reason = if case .cannotMove(let reason) = error { reason } else { "\(error)" }
        self.init(.failed, [.bytes(Array(reason.utf8))])
    }

    /// Sends the message now, or when there is room, without waiting. Without a connection the library's own thread tries
    /// again: the registry may be lost, and the other process waits for this message to learn who has the port.
    func post(
        to right: MachPort.SendRight, _ patience: Patience<MonotonicInstant> = Patience(.seconds(60), from: .now)
    ) {
        let sent = { @Sendable (error: (any Error)?) in
            var patience = patience
            guard case .cannotConnect? = error as? PortError, !patience.isOver(at: .now) else { return }
            right.channel.channels.housekeeping.perform(after: .milliseconds(100)) { [patience] in
                self.post(to: right, patience)
            }
        }
        do { try right.post(self, within: .seconds(60), ended: sent) } catch { sent(error) }
    }

    var step: MovingStep? { MovingStep(rawValue: id) }

    /// The numbers in the first component.
    var numbers: [UInt64] {
        withBytes { bytes in
            bytes.withUnsafeBytes { bytes in (0..<bytes.count / 8).map { bytes.little(at: 8 * $0) } }
        } ?? []
    }

    static func bytes(of numbers: [UInt64]) -> Component {
        .bytes(numbers.flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) })
    }

    /// The text in a component; nil for others.
    package func text(ofComponent index: Int) -> String? {
        withBytes(ofComponent: index) { bytes in
            bytes.withUnsafeBytes { String(validating: $0, as: UTF8.self) }
        } ?? nil
    }
}

// A sender in a message, as two numbers.
extension SenderCredentials {
    var numbers: [UInt64] { [UInt64(UInt32(bitPattern: pid)), UInt64(uid) << 32 | UInt64(gid)] }

    init(_ first: UInt64, _ second: UInt64) {
        self.init(
            pid: Int32(truncatingIfNeeded: first), uid: UInt32(truncatingIfNeeded: second >> 32),
            gid: UInt32(truncatingIfNeeded: second))
    }
}

// A message that waited at the port: its kind, id, request, sender and size, and the places of descriptors that have not
// come to it, then its components.
extension MachPort.Message {
    /// The message stays whole, in case the port stays.
    /// - Parameter own: The sender of messages of this runtime.
    init(waiting message: LocalMessage, own: SenderCredentials) throws(PortError) {
        let (header, sender) = (message.header, message.sender ?? own)
        var facts = [UInt64(header.kind.rawValue) << 32 | UInt64(header.id), header.request]
        facts += sender.numbers + [UInt64(message.size)]
        var components: [Component] = []
        for (index, component) in message.components.enumerated() {
            switch component {
            case .bytes(let bytes): components.append(.bytes(bytes))
            case .port(let port): components.append(.port(MachPort.SendRight(port.sendable)))
            case .offer(let port):
                components.append(.receiveRight(MachPort.ReceiveRight(offer: MachPort.SendRight(port.sendable))))
            case .descriptor(let descriptor):
                if let number = try? descriptor.number {
                    components.append(.descriptor(try MessageDescriptor(duplicating: number)))
                } else {
                    facts.append(UInt64(index))
                    components.append(.bytes([]))
                }
            }
        }
        self.init(
            .message, [Self.bytes(of: facts)] + components,
            replyPort: message.replyRight.map { MachPort.SendRight($0.sendable) })
    }

    /// The message that waited; nil when this is none.
    var waiting: LocalMessage? {
        let facts = numbers
        guard facts.count >= 5, let kind = Wire.Kind(rawValue: UInt8(truncatingIfNeeded: facts[0] >> 32)) else {
            return nil
        }
        var components = components.dropFirst().map(\.local)
        for place in facts[5...] {
            guard place < components.count else { return nil }
            components[Int(place)] = .descriptor(MessageDescriptor(missing: .descriptorLost))
        }
        return LocalMessage(
            kind: kind, id: UInt32(truncatingIfNeeded: facts[0]), request: facts[1], components: components,
            replyRight: replyPort?.channel, size: UInt32(clamping: facts[4]),
            sender: SenderCredentials(facts[2], facts[3]))
    }
}

/// The last message of a move: the number of the messages before, and the names of the port.
struct MovedContents {
    struct Name: Equatable {
        /// The path of the directory.
        let path: String
        let name: String
        let isService: Bool
    }

    /// The messages that were sent before. Nil when the message does not say.
    let messageCount: UInt64?
    let names: [Name]

    init(messageCount: UInt64, names: [Name]) { (self.messageCount, self.names) = (messageCount, names) }

    init(_ message: MachPort.Message) {
        messageCount = message.numbers.first
        names = stride(from: 1, to: message.componentCount - 2, by: 3).compactMap { index in
            guard let path = message.text(ofComponent: index), let name = message.text(ofComponent: index + 1) else {
                return nil
            }
            let isService = message.withBytes(ofComponent: index + 2) { $0.withUnsafeBytes { $0.first == 1 } } ?? true
            return Name(path: path, name: name, isService: isService)
        }
    }

    var components: [MachPort.Message.Component] {
        let count = messageCount.map { MachPort.Message.bytes(of: [$0]) } ?? .bytes([])
        return names.reduce(into: [count]) { components, name in
            components += [
                .bytes(Array(name.path.utf8)), .bytes(Array(name.name.utf8)), .bytes([name.isService ? 1 : 0]),
            ]
        }
    }
}

extension SendChannel {
    /// The channel, or one to a port that is gone, in place of an invalid one of this runtime, which cannot be sent.
    fileprivate var sendable: SendChannel {
        guard isLocal, !isValid else { return latest }
        var right = right
        right.id = publicID
        return .invalid(right, in: channels)
    }
}
