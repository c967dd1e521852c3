import RunLoops

/// The descriptors of one message, as its port has found them.
struct PassedDescriptors: Sendable {
    var result: Result<[MessageDescriptor], PortError>
    /// Descriptors of messages that have not come, to be closed when the port's lock is released.
    var surplus: [MessageDescriptor] = []
    /// The socket of a way that was closed meanwhile.
    var closed: DescriptorSocket?

    /// The descriptors of a message of this number of them, each with an error in its place if others or none have come.
    static func descriptors(_ count: Int, of passed: PassedDescriptors?) -> [MessageDescriptor] {
        switch passed?.result {
        case .success(let descriptors)? where descriptors.count == count: descriptors
        case .failure(let error)?: (0..<count).map { _ in MessageDescriptor(missing: error) }
        default: (0..<count).map { _ in MessageDescriptor(missing: .descriptorLost) }
        }
    }
}

/// The ways on which the descriptors of other processes' messages come to a port. The port's lock guards the value.
struct DescriptorIntake: ~Copyable {
    private struct Way {
        let socket: DescriptorSocket
        let peer: Incarnation
        /// The order in which the ways were made.
        let order: Int
        var lastTaken: UInt64 = 0
    }

    /// By the number that messages name a way with.
    private var ways: [UInt64: Way] = [:]
    private var lastOrder = 0
    /// The descriptors of messages that were taken a moment ago.
    private var found: [Wire.DescriptorToken: PassedDescriptors] = [:]

    /// A sender of this library leaves fewer packets without messages behind.
    private static let mostSurplus = 256
    /// The ways of processes without a connection, to which messages may come or wait.
    private static let mostUnconnected = 64
    /// The former ways of a live peer, which leaves one with messages when a channel of its own ends.
    private static let mostFormer = 8

    var peers: Set<Incarnation> { Set(ways.values.map(\.peer)) }

    /// Finds the peers that have closed their ends of all their ways. A stopped process still has its ends, and its messages
    /// by ZeroMQ come later.
    func gone(of peers: Set<Incarnation>) -> Set<Incarnation> {
        peers.subtracting(ways.values.lazy.filter { peers.contains($0.peer) && !$0.socket.hasHungUp }.map(\.peer))
    }

    /// The numbers of messages with descriptors that wait, as far as their senders are of this library.
    var waitingCounts: [Incarnation: Int] {
        Dictionary(ways.values.map { ($0.peer, $0.socket.waitingCount) }, uniquingKeysWith: +)
    }

    /// Adds a way in place of a peer's former one. A former way stays while descriptors of messages wait on it.
    /// - Returns: The closed sockets, to be released after the lock.
    mutating func add(_ socket: DescriptorSocket, _ number: UInt64, of peer: Incarnation) -> [DescriptorSocket] {
        let used = ways.values.filter { $0.peer == peer && $0.socket.waitingCount > 0 }.map(\.order).sorted()
        let kept = used.suffix(Self.mostFormer)
        let former = remove { $1.peer == peer && !kept.contains($1.order) }
        lastOrder += 1
        ways[number] = Way(socket: socket, peer: peer, order: lastOrder)
        return former
    }

    private mutating func remove(_ isMeant: (UInt64, Way) -> Bool) -> [DescriptorSocket] {
        let removed = ways.filter(isMeant)
        for number in removed.keys { ways[number] = nil }
        return removed.values.map(\.socket)
    }

    /// Closes a way whose sender sends nothing more by it.
    mutating func close(_ number: UInt64, of peer: Incarnation) -> [DescriptorSocket] {
        remove { $0 == number && $1.peer == peer }
    }

    /// Closes ways of processes without a connection: those of processes that are gone, and the oldest ones beyond a number.
    /// - Parameter gone: The processes among them that are gone, and have no message on its way.
    /// - Returns: The closed sockets, to be released after the lock.
    mutating func close(of unconnected: Set<Incarnation>, gone: Set<Incarnation>) -> [DescriptorSocket] {
        let orders = ways.values.filter { unconnected.contains($0.peer) }.map(\.order).sorted()
        let last = orders.dropLast(Self.mostUnconnected).last ?? 0
        return remove { gone.contains($1.peer) || unconnected.contains($1.peer) && $1.order <= last }
    }

    mutating func closeAll() -> [DescriptorSocket] { remove { _, _ in true } }

    // MARK: Taking

    /// Finds the descriptors of a frame that is being taken. The frame is not checked yet. Frames are taken in the order of
    /// their packets.
    @inline(__always)
    mutating func find(for frame: borrowing Frame) {
        if ways.isEmpty { return }
        findAny(for: frame)
    }

    @inline(never)
    private mutating func findAny(for frame: borrowing Frame) {
        guard let token = frame.descriptorToken, found[token] == nil else { return }
        found[token] = ways[token.socket].map { find(token, on: $0) }
    }

    private mutating func find(_ token: Wire.DescriptorToken, on way: Way) -> PassedDescriptors {
        var passed = PassedDescriptors(result: .failure(.descriptorLost))
        guard token.packet > way.lastTaken else { return passed }
        var rest = Self.mostSurplus
        while let packet = way.socket.receive() {
            let descriptors = packet.descriptors.map { MessageDescriptor(received: $0) }
            guard packet.number >= token.packet || rest == 0 else {
                rest -= 1
                passed.surplus += descriptors
                continue
            }
            guard packet.number == token.packet else {
                // Only a sender of another kind sends a message whose packet comes late, or packets without end.
                passed.surplus += descriptors
                ways[token.socket] = nil
                passed.closed = way.socket
                return passed
            }
            ways[token.socket]?.lastTaken = packet.number
            way.socket.report(taken: packet.number)
            if packet.count == descriptors.count, Self.leaveReserve(packet.descriptors) {
                passed.result = .success(descriptors)
            } else {
                passed.surplus += descriptors
                if packet.count >= descriptors.count {
                    passed.result = .failure(.outOfDescriptors(limit: Int(clamping: Descriptor.limit)))
                }
            }
            return passed
        }
        return passed
    }

    /// Whether the descriptors that libzmq needs are free. The kernel gives the lowest number that is free.
    private static func leaveReserve(_ descriptors: [Int32]) -> Bool {
        descriptors.allSatisfy { Int($0) < Int(clamping: Descriptor.limit) - DescriptorReserve.size }
    }

    /// The descriptors that ``find(for:)`` has found. They stay for those who take the frame.
    func look(_ token: Wire.DescriptorToken) -> PassedDescriptors? { found[token] }

    /// Hands out all that ``find(for:)`` has found.
    mutating func takeAll() -> [PassedDescriptors] {
        defer { found = [:] }
        return Array(found.values)
    }

    /// Hands out what ``find(for:)`` has found.
    mutating func take(_ token: Wire.DescriptorToken) -> PassedDescriptors? { found.removeValue(forKey: token) }
}
