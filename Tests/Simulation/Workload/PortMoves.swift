/// The processes that claim a port.
struct PortMoves {
    struct Claim {
        let process: Process
        let begin = machine.now
    }

    /// The claims that have not ended, be it that their processes have died.
    private(set) var claims: [Claim] = []
    /// The former owners that may have a message in hand, the last one last.
    var inHand: [Process] = []
    private var lastFailure: UInt64?
    private(set) var isNone = true

    /// The time in which all living processes learn what has become of a move.
    private static let patience: UInt64 = 30_000_000_000

    var claimants: [Process] { claims.map(\.process) }

    /// Whether the port may be on its way.
    var isUncertain: Bool {
        func isRecent(_ time: UInt64?) -> Bool { time.map { machine.now < $0 + Self.patience } ?? true }
        return claimants.contains { !$0.isDead || isRecent($0.endTime) } || lastFailure != nil && isRecent(lastFailure)
    }

    /// Whether a process has died that may have had the port.
    var hasDeadClaimant: Bool { claimants.contains(where: \.isDead) }

    mutating func begin(by process: Process) {
        isNone = false
        claims.append(Claim(process: process))
    }

    mutating func fail(by process: Process) {
        _ = remove(process)
        lastFailure = machine.now
    }

    /// - Parameter former: The former owner, if it may have a message in hand.
    /// - Returns: When the claim began.
    mutating func succeed(by process: Process, after former: Process?) -> UInt64 {
        let begin = remove(process)?.begin
        claims.removeAll(where: \.process.isDead)
        if let former { inHand.append(former) }
        return begin ?? machine.now
    }

    /// - Returns: False when the process has none in hand.
    mutating func takeInHand(of process: Process) -> Bool {
        guard let place = inHand.lastIndex(where: { $0 === process }) else { return false }
        inHand.remove(at: place)
        return true
    }

    private mutating func remove(_ process: Process) -> Claim? {
        claims.firstIndex { $0.process === process }.map { claims.remove(at: $0) }
    }
}
