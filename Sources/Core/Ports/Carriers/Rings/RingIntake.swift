import DequeModule
import RunLoops

/// The rings of a port, as its takers see them: those with records take turns, and the others ring a bell.
struct RingIntake: ~Copyable {
    private var rings: [RingReceiver?] = []
    /// The rings that takers look at. The first one has its turn.
    private var open: Deque<RingReceiver> = []
    private var leftInTurn = Self.turn
    private var lastOrder: UInt64 = 0
    /// Whether a message waits because it got no memory.
    private(set) var lacksMemory = false
    /// Readable when a ring was rung; nil before the first ring.
    private var bells: DescriptorSet?

    /// Whether there are rings that were stopped.
    private var haveStopped = false
    /// Whether records wait in rings that were stopped. They precede what their senders send by ZeroMQ now.
    var haveStoppedRecords: Bool {
        haveStopped && rings.contains { ring in ring.map { $0.isStopped && $0.hasRecord } ?? false }
    }

    /// The records of one ring before another has its turn.
    private static let turn = 32
    /// An open ring is closed after this number of empty looks. An open ring saves its sender the bell, but costs each look.
    private static let mostEmptyLooks = 64

    var isEmpty: Bool { rings.isEmpty }
    var all: [RingReceiver] { rings.compactMap(\.self) }
    /// A peer's rings in the order in which it has sent by them.
    var inOrder: [RingReceiver] { all.sorted { $0.order < $1.order } }
    func rings(of peer: Incarnation) -> [RingReceiver] { inOrder.filter { $0.peer == peer } }

    /// The bytes of all rings, and of what waits in them.
    var memoryInUse: (used: Int, size: Int) {
        all.reduce((0, 0)) { ($0.0 + ($1.used ?? 0), $0.1 + $1.size) }
    }

    /// The set of the rings' bells; nil when no descriptor is left.
    mutating func makeBells() -> DescriptorSet? {
        if bells == nil { bells = try? DescriptorSet() }
        return bells
    }

    /// The most rings of one peer, of which all but one were stopped.
    private static let mostOfOne = 64
    /// The rings since ZeroMQ had its turn whose peers had a ring with messages before. Those precede ZeroMQ, so peers that
    /// ask for ring after ring would keep all others waiting.
    private var inRow = 0
    static let mostInRow = 1024

    /// ZeroMQ has its turn.
    mutating func endRow() { inRow = 0 }

    /// - Returns: False when the kernel refuses to watch the bell, or the peer has too many.
    mutating func add(_ ring: RingReceiver) -> Bool {
        let formers = rings(of: ring.peer)
        guard formers.count < Self.mostOfOne, formers.isEmpty || inRow < Self.mostInRow else { return false }
        let place = rings.firstIndex { $0 == nil } ?? rings.count
        guard let bells = makeBells(), (try? bells.add(ring.bell.descriptor, token: UInt64(place))) != nil else {
            return false
        }
        lastOrder += 1
        (ring.order, ring.former) = (lastOrder, formers.last)
        if !formers.isEmpty { inRow += 1 }
        if place == rings.count { rings.append(ring) } else { rings[place] = ring }
        return true
    }

    mutating func remove(_ ring: RingReceiver) {
        ring.end()
        removeEnded()
    }

    /// Removes the rings that have ended.
    /// - Returns: The number of rings for which they have made way, and which takers look at now.
    @discardableResult
    private mutating func removeEnded() -> Int {
        for (place, ring) in rings.enumerated() where ring?.isEnded == true {
            if let ring { bells?.remove(ring.bell.descriptor) }
            rings[place] = nil
        }
        open.removeAll(where: \.isEnded)
        haveStopped = rings.contains { $0?.isStopped == true }
        let others = open.count
        for case let ring? in rings where ring.former?.isEnded == true {
            while let former = ring.former, former.isEnded { ring.former = former.former }
            openRing(ring)
        }
        return open.count - others
    }

    /// Opens the rings that were rung.
    mutating func hear() {
        guard let bells else { return }
        bells.take { token in
            let place = Int(truncatingIfNeeded: token)
            if rings.indices.contains(place), let ring = rings[place] { openRing(ring) }
        }
    }

    /// Opens a peer's rings with records, rung or not: the peer may ring later, when the kernel has memory for the signal.
    mutating func open(of peer: Incarnation) { for ring in rings(of: peer) where ring.hasRecord { openRing(ring) } }

    private mutating func openRing(_ ring: RingReceiver) {
        if ring.former != nil { return }
        if ring.isOpen { return ring.open() }
        ring.open()
        if ring.isOpen { open.append(ring) }
    }

    /// Takes what is left in a peer's rings, and then ends them: the peer is gone, or sends no more.
    /// - Parameter question: The number of one ring's question; nil for all rings.
    mutating func endWhenEmpty(of peer: Incarnation, question: UInt64? = nil) {
        endWhenEmpty { $0.peer == peer && (question == nil || $0.question == question) }
    }

    /// Lets no peer send any more. The records that were sent before are still taken.
    mutating func stopAll() { stopAll { _ in true } }

    /// Lets a peer send no more by its rings.
    mutating func stopAll(of peer: Incarnation) { stopAll { $0.peer == peer } }

    private mutating func stopAll(_ isMeant: (RingReceiver) -> Bool) {
        for case let ring? in rings where isMeant(ring) && !ring.isEnded {
            ring.stop()
            openRing(ring)
        }
        closeEmpty()
        removeEnded()
    }

    /// An empty ring ends at once, because perhaps nobody takes from the port.
    private mutating func closeEmpty() {
        for ring in open where ring.isEnding && !ring.hasRecord { _ = ring.close() }
        removeClosed()
    }

    /// Stops all rings, and leaves what is in them to somebody else.
    /// - Returns: The rings, which are nobody's any more.
    mutating func leave() -> [RingReceiver] {
        let left = all
        for ring in left {
            ring.stop()
            bells?.remove(ring.bell.descriptor)
        }
        (rings, open, haveStopped) = ([], [], false)
        return left
    }

    /// Whether a ring has a record, be it that there was no memory for it.
    var hasUntaken: Bool { rings.contains { $0?.hasUntaken == true } }

    mutating func endAllWhenEmpty() { endWhenEmpty { _ in true } }

    private mutating func endWhenEmpty(_ isMeant: (RingReceiver) -> Bool) {
        for case let ring? in rings where isMeant(ring) && !ring.isEnded {
            ring.isEnding = true
            openRing(ring)
        }
        closeEmpty()
    }

    /// Takes nothing more, whatever waits.
    mutating func end() {
        for case let ring? in rings where !ring.isEnded { ring.end() }
        removeEnded()
    }

    /// The next record, of the ring whose turn it is.
    @inline(__always)
    mutating func look() -> (ring: RingReceiver, record: RingReceiver.Record)? {
        if open.isEmpty { return nil }
        if leftInTurn > 0, case .record(let record) = open[0].look() {
            leftInTurn -= 1
            return (open[0], record)
        }
        return lookAtOthers()
    }

    private mutating func lookAtOthers() -> (ring: RingReceiver, record: RingReceiver.Record)? {
        var looks = open.count
        while looks > 0, !open.isEmpty {
            looks -= 1
            if open.count > 1 { open.append(open.removeFirst()) }
            leftInTurn = Self.turn
            let ring = open[0]
            switch ring.look() {
            case .record(let record):
                leftInTurn -= 1
                return (ring, record)
            case .nothing:
                ring.emptyLooks += 1
                if ring.isEnding || ring.emptyLooks >= Self.mostEmptyLooks, ring.close() { looks += removeClosed() }
            case .broken:
                ring.warnBroken()
                ring.end()
                looks += removeEnded()
            }
        }
        return nil
    }

    @discardableResult
    private mutating func removeClosed() -> Int {
        let haveEnded = open.contains(where: \.isEnded)
        open.removeAll { !$0.isOpen }
        return haveEnded ? removeEnded() : 0
    }

    /// Closes the open rings.
    /// - Returns: False when one has a record, or has made way for its peer's next ring.
    mutating func close() -> Bool {
        if open.isEmpty { return true }
        var areClosed = true
        for ring in open where !ring.close() { areClosed = false }
        removeClosed()
        return areClosed && open.isEmpty
    }

    /// A message got no memory. Its ring is looked at again later.
    mutating func block(_ ring: RingReceiver) {
        ring.block()
        lacksMemory = true
    }

    mutating func openBlocked() {
        lacksMemory = false
        for case let ring? in rings where !ring.isEnded { openRing(ring) }
    }

    /// Whether a ring that takers look at has a record.
    var hasRecords: Bool { open.contains(where: \.hasRecord) }

    /// Whether any ring has a record, be it that nobody has heard its bell yet.
    var hasAnyRecord: Bool { rings.contains { $0?.hasRecord == true } }
}
