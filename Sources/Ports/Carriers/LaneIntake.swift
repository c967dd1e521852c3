import DequeModule

/// The lanes of a port, as its takers see them: those with records take turns, and the others ring.
struct LaneIntake: ~Copyable {
    private var lanes: [LaneReceiver?] = []
    /// The lanes that takers look at. The first one has its turn.
    private var open: Deque<LaneReceiver> = []
    private var leftInTurn = Self.turn
    private var lastOrder: UInt64 = 0
    /// Whether a message waits because it got no memory.
    private(set) var lacksMemory = false
    /// Readable when a lane was rung; nil before the first lane.
    private var bells: BellSet?

    /// Whether there are lanes that were stopped.
    private var haveStopped = false
    /// Whether records wait in lanes that were stopped. They precede what their senders send by ZeroMQ now.
    var haveStoppedRecords: Bool {
        haveStopped && lanes.contains { lane in lane.map { $0.isStopped && $0.hasRecord } ?? false }
    }

    /// The records of one lane before another has its turn.
    private static let turn = 32
    /// An open lane is closed after this number of empty looks. An open lane saves its sender the ring, but costs each look.
    private static let mostEmptyLooks = 64

    var isEmpty: Bool { lanes.isEmpty }
    var all: [LaneReceiver] { lanes.compactMap(\.self) }
    /// A peer's lanes in the order in which it has sent by them.
    var inOrder: [LaneReceiver] { all.sorted { $0.order < $1.order } }
    func lanes(of peer: Incarnation) -> [LaneReceiver] { inOrder.filter { $0.peer == peer } }

    /// The bytes of all rings, and of what waits in them.
    var memoryInUse: (used: Int, size: Int) {
        all.reduce((0, 0)) { ($0.0 + ($1.used ?? 0), $0.1 + $1.size) }
    }

    /// The set of the lanes' bells; nil when no descriptor is left.
    mutating func makeBells() -> BellSet? {
        if bells == nil { bells = try? BellSet() }
        return bells
    }

    /// The most lanes of one peer, of which all but one were stopped.
    private static let mostOfOne = 64
    /// The lanes since ZeroMQ had its turn whose peers had a lane with messages before. Those precede ZeroMQ, so peers that
    /// ask for lane after lane would keep all others waiting.
    private var inRow = 0
    static let mostInRow = 1024

    /// ZeroMQ has its turn.
    mutating func endRow() { inRow = 0 }

    /// - Returns: False when the kernel refuses to watch the bell, or the peer has too many.
    mutating func add(_ lane: LaneReceiver) -> Bool {
        let formers = lanes(of: lane.peer)
        guard formers.count < Self.mostOfOne, formers.isEmpty || inRow < Self.mostInRow else { return false }
        let place = lanes.firstIndex { $0 == nil } ?? lanes.count
        guard makeBells()?.add(lane.bell, place) == true else { return false }
        lastOrder += 1
        (lane.order, lane.former) = (lastOrder, formers.last)
        if !formers.isEmpty { inRow += 1 }
        if place == lanes.count { lanes.append(lane) } else { lanes[place] = lane }
        return true
    }

    mutating func remove(_ lane: LaneReceiver) {
        lane.end()
        removeEnded()
    }

    /// Removes the lanes that have ended.
    /// - Returns: The number of lanes for which they have made way, and which takers look at now.
    @discardableResult
    private mutating func removeEnded() -> Int {
        for (place, lane) in lanes.enumerated() where lane?.isEnded == true {
            if let lane { bells?.remove(lane.bell) }
            lanes[place] = nil
        }
        open.removeAll(where: \.isEnded)
        haveStopped = lanes.contains { $0?.isStopped == true }
        let others = open.count
        for case let lane? in lanes where lane.former?.isEnded == true {
            while let former = lane.former, former.isEnded { lane.former = former.former }
            openLane(lane)
        }
        return open.count - others
    }

    /// Opens the lanes that were rung.
    mutating func hear() {
        guard let bells else { return }
        bells.take { place in
            if lanes.indices.contains(place), let lane = lanes[place] { openLane(lane) }
        }
    }

    private mutating func openLane(_ lane: LaneReceiver) {
        if lane.former != nil { return }
        if lane.isOpen { return lane.open() }
        lane.open()
        if lane.isOpen { open.append(lane) }
    }

    /// The last connection to a peer has ended. A process that has ended writes nothing more, but a child of its may.
    mutating func loseMemories(of peer: Incarnation, hasEnded: Bool) {
        for case let lane? in lanes where lane.peer == peer && !lane.isEnded {
            if hasEnded { lane.stop() }
            lane.loseMemories()
        }
        removeEnded()
    }

    /// Memory that has not come does not come any more.
    mutating func loseMemories() {
        for case let lane? in lanes where !lane.isEnded {
            lane.loseMemories()
            openLane(lane)
        }
    }

    /// Takes what is left in a peer's lanes, and then ends them: the peer is gone, or sends no more.
    /// - Parameter question: The number of one lane's question; nil for all lanes.
    mutating func endWhenEmpty(of peer: Incarnation, question: UInt64? = nil) {
        endWhenEmpty { $0.peer == peer && (question == nil || $0.question == question) }
    }

    /// Lets no peer send any more. The records that were sent before are still taken.
    mutating func stopAll() { stopAll { _ in true } }

    /// Lets a peer send no more by its lanes.
    mutating func stopAll(of peer: Incarnation) { stopAll { $0.peer == peer } }

    private mutating func stopAll(_ isMeant: (LaneReceiver) -> Bool) {
        for case let lane? in lanes where isMeant(lane) && !lane.isEnded {
            lane.stop()
            openLane(lane)
        }
        closeEmpty()
        removeEnded()
    }

    /// An empty lane ends at once, because perhaps nobody takes from the port.
    private mutating func closeEmpty() {
        for lane in open where lane.isEnding && !lane.hasRecord { _ = lane.close() }
        removeClosed()
    }

    /// Stops all lanes, and leaves what is in them to somebody else.
    /// - Returns: The lanes, which are nobody's any more.
    mutating func leave() -> [LaneReceiver] {
        let left = all
        for lane in left {
            lane.stop()
            bells?.remove(lane.bell)
        }
        (lanes, open, haveStopped) = ([], [], false)
        return left
    }

    /// Whether a lane has a record, be it that its memory has not come.
    var hasUntaken: Bool { lanes.contains { $0?.hasUntaken == true } }

    mutating func endAllWhenEmpty() { endWhenEmpty { _ in true } }

    private mutating func endWhenEmpty(_ isMeant: (LaneReceiver) -> Bool) {
        for case let lane? in lanes where isMeant(lane) && !lane.isEnded {
            lane.isEnding = true
            openLane(lane)
        }
        closeEmpty()
    }

    /// A peer has handed over the memory of a message; nil when it was lost on its way.
    mutating func memoryCame(_ number: UInt64, _ descriptor: OwnedDescriptor?, of peer: Incarnation) {
        for case let lane? in lanes where lane.peer == peer && !lane.isEnded {
            lane.memoryCame(number, descriptor)
            openLane(lane)
        }
    }

    /// Takes nothing more, whatever waits.
    mutating func end() {
        for case let lane? in lanes where !lane.isEnded { lane.end() }
        removeEnded()
    }

    /// The next record, of the lane whose turn it is.
    @inline(__always)
    mutating func look() -> (lane: LaneReceiver, record: LaneReceiver.Record)? {
        if open.isEmpty { return nil }
        if leftInTurn > 0, case .record(let record) = open[0].look() {
            leftInTurn -= 1
            return (open[0], record)
        }
        return lookAtOthers()
    }

    private mutating func lookAtOthers() -> (lane: LaneReceiver, record: LaneReceiver.Record)? {
        var looks = open.count
        while looks > 0, !open.isEmpty {
            looks -= 1
            if open.count > 1 { open.append(open.removeFirst()) }
            leftInTurn = Self.turn
            let lane = open[0]
            switch lane.look() {
            case .record(let record):
                leftInTurn -= 1
                return (lane, record)
            case .nothing:
                lane.emptyLooks += 1
                if lane.isEnding || lane.emptyLooks >= Self.mostEmptyLooks, lane.close() { looks += removeClosed() }
            case .broken:
                lane.warnBroken()
                lane.end()
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

    /// Closes the open lanes.
    /// - Returns: False when one has a record, or has made way for its peer's next lane.
    mutating func close() -> Bool {
        if open.isEmpty { return true }
        var areClosed = true
        for lane in open where !lane.close() { areClosed = false }
        removeClosed()
        return areClosed && open.isEmpty
    }

    /// A message got no memory. Its lane is looked at again later.
    mutating func block(_ lane: LaneReceiver) {
        lane.block()
        lacksMemory = true
    }

    mutating func openBlocked() {
        lacksMemory = false
        for case let lane? in lanes where !lane.isEnded { openLane(lane) }
    }

    /// Whether a lane that takers look at has a record.
    var hasRecords: Bool { open.contains(where: \.hasRecord) }

    /// Whether any lane has a record, be it that nobody has heard its bell yet.
    var hasAnyRecord: Bool { lanes.contains { $0?.hasRecord == true } }
}
