/// The processes that claim a port.
struct PortMoves {
    /// The processes whose claims have not ended, be it that they have died.
    private(set) var claimants: [Process] = []
    /// The former owners that may have a message in hand.
    var inHand: [Process] = []
    private var lastFailure: UInt64?
    private(set) var isNone = true

    /// The time in which all living processes learn what has become of a move.
    private static let patience: UInt64 = 30_000_000_000

    /// Whether the port may be on its way.
    var isUncertain: Bool {
        func isRecent(_ time: UInt64?) -> Bool { time.map { machine.now < $0 + Self.patience } ?? true }
        return claimants.contains { !$0.isDead || isRecent($0.endTime) } || lastFailure != nil && isRecent(lastFailure)
    }

    /// Whether a process has died that may have had the port.
    var hasDeadClaimant: Bool { claimants.contains(where: \.isDead) }

    mutating func begin(by process: Process) {
        isNone = false
        claimants.append(process)
    }

    mutating func fail(by process: Process) {
        remove(process)
        lastFailure = machine.now
    }

    mutating func succeed(by process: Process) {
        remove(process)
        claimants.removeAll(where: \.isDead)
        inHand = [process]
    }

    private mutating func remove(_ process: Process) {
        if let index = claimants.firstIndex(where: { $0 === process }) { claimants.remove(at: index) }
    }
}
