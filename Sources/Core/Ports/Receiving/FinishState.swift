import RunLoops

/// The decisions of ``FinishingPorts``.
struct FinishState {
    /// An effect to carry out after the lock.
    enum Effect: Sendable {
        /// All senders have finished or are given up.
        case done(Promise<Void>)
        /// Whether the sender reads its replies.
        case silence(any TakenRequests, of: Incarnation, Bool)
    }

    private struct Finish {
        var senders: Set<Incarnation> = []
        /// All that were told, until no others are waited for.
        var known: Set<Incarnation> = []
        var awaitsOthers = true
        /// The looks at senders that may have to be given up.
        var rounds: [Incarnation: UInt64] = [:]
        /// The calls that are telling the senders. Until they end, not all senders can be done.
        var tellers = 0
        /// Nil for a port that moves.
        let requests: (any TakenRequests)?
        var givenUp: Set<Incarnation> = []
        var areDone = Promise<Void>()
        var isDone = false

        /// The sender has finished, or is gone.
        mutating func remove(_ sender: Incarnation) {
            senders.remove(sender)
            givenUp.remove(sender)
        }
    }

    /// The time of a sender for its last messages. A stopped process gets this time once for many ports that end one
    /// after another.
    static let patience = Duration.seconds(1)

    private var ports: [UInt64: Finish] = [:]
    private var lastLook: UInt64 = 0
    private var unanswered: [Incarnation: MonotonicInstant] = [:]
    private var silent: Set<Incarnation> = []

    func silence(of sender: Incarnation) -> MonotonicInstant? { silent.contains(sender) ? unanswered[sender] : nil }
    func isFinishing(_ number: UInt64) -> Bool { ports[number] != nil }

    /// Whether a look at a sender goes on.
    mutating func goesOn(_ look: UInt64, at sender: Incarnation, _ number: UInt64) -> Bool {
        guard ports[number]?.rounds[sender] == look else { return false }
        if ports[number]?.senders.contains(sender) == true { return true }
        ports[number]?.rounds[sender] = nil
        return false
    }

    func areDone(_ number: UInt64) -> Promise<Void>? { ports[number]?.areDone }

    func givenUp(_ number: UInt64) -> Set<Incarnation> { ports[number]?.givenUp ?? [] }
    func unanswering(_ number: UInt64) -> Set<Incarnation> { ports[number]?.senders ?? [] }

    mutating func begin(_ number: UInt64, _ requests: (any TakenRequests)?) {
        ports[number, default: Finish(requests: requests)].tellers += 1
    }

    mutating func awaitNoOthers(_ number: UInt64) { ports[number]?.awaitsOthers = false }

    mutating func tellersEnd(_ number: UInt64) -> [Effect] { change(number) { $0.tellers -= 1 } }

    struct Told {
        /// When the sender may be given up.
        let end: MonotonicInstant
        /// Whether the port moves, and does not finish.
        let moves: Bool
        /// The look at the sender that begins; nil when there is one.
        let look: UInt64?
    }

    /// - Returns: Nil when the port neither finishes nor moves.
    mutating func tell(_ sender: Incarnation, _ number: UInt64, at now: MonotonicInstant) -> Told? {
        guard var port = ports[number] else { return nil }
        if !port.awaitsOthers, !port.known.contains(sender) {
            return Told(end: now, moves: port.requests == nil, look: nil)
        }
        port.known.insert(sender)
        port.senders.insert(sender)
        if port.isDone { (port.areDone, port.isDone) = (Promise(), false) }
        var look: UInt64?
        if port.rounds[sender] == nil {
            lastLook += 1
            (look, port.rounds[sender]) = (lastLook, lastLook)
        }
        ports[number] = port
        let since = unanswered[sender] ?? now
        unanswered[sender] = since
        return Told(end: since + Self.patience, moves: port.requests == nil, look: look)
    }

    /// Whether the port moves, and does not finish; nil when it does neither.
    func moves(_ number: UInt64) -> Bool? { ports[number].map { $0.requests == nil } }

    mutating func finished(_ sender: Incarnation, _ number: UInt64) -> [Effect] {
        noteAlive(sender)
        let silences = ports[number]?.requests.map { [Effect.silence($0, of: sender, false)] } ?? []
        return silences + change(number) { $0.remove(sender) }
    }

    mutating func giveUp(_ sender: Incarnation, _ number: UInt64) -> [Effect] {
        // A sender that has finished reads, and gets its replies.
        guard let port = ports[number], port.senders.contains(sender) else { return [] }
        silent.insert(sender)
        let silences = port.requests.map { [Effect.silence($0, of: sender, true)] } ?? []
        return silences
            + change(number) {
                $0.senders.remove(sender)
                $0.givenUp.insert(sender)
                // Should the sender come again, it is looked at again.
                $0.rounds[sender] = nil
            }
    }

    private mutating func noteAlive(_ sender: Incarnation) { (unanswered[sender], _) = (nil, silent.remove(sender)) }

    mutating func connectionEnded(_ sender: Incarnation) -> [Effect] {
        noteAlive(sender)
        return ports.keys.flatMap { number in
            change(number) { $0.remove(sender) }
        }
    }

    mutating func remove(_ number: UInt64) { ports[number] = nil }

    private mutating func change(_ number: UInt64, _ body: (inout Finish) -> Void) -> [Effect] {
        guard var port = ports[number] else { return [] }
        body(&port)
        port.isDone = port.isDone || port.senders.isEmpty && port.tellers == 0
        ports[number] = port
        return port.isDone ? [.done(port.areDone)] : []
    }
}
