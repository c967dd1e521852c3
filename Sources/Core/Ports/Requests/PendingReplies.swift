import RunLoopLocks
import RunLoops

/// The requests of a runtime that wait for their replies.
final class PendingReplies: Sendable {
    private struct State {
        var pending = PendingTable<UInt64, PendingReply>()
        var lastRequest: UInt64 = 0
        var late = 0
        /// The homes that their ports have left, and whose replies are being taken.
        var left: Set<PortID> = []
        /// The ends of homes about which nothing was done yet.
        var ends: [PortEnd] = []
        var endings: [Ending] = []
    }

    private let channels: ChannelTable
    private var housekeeping: Housekeeping { channels.housekeeping }
    private let statistics: StatisticsCollector
    private let state = Lock(State())
    /// Makes numbers that other processes cannot guess, because a process that knows a request's number can answer the
    /// request.
    private let secret = UInt128.random(in: 0 ... .max)

    init(_ channels: ChannelTable, _ statistics: StatisticsCollector) {
        self.channels = channels
        self.statistics = statistics
    }

    /// The replies that came after their requests had ended.
    var lateCount: Int { state.withLockUnlessForked { $0.late } ?? 0 }
    func pendingCount(to port: PortID) -> Int { state.withLock { $0.pending.count(to: port) } }

    /// The numbers of requests that wait, of some ports.
    func counts(atMost most: Int) -> [(port: PortID, count: Int)] { state.withLock { $0.pending.counts(atMost: most) } }

    func add(_ pending: PendingReply) -> UInt64 {
        state.withLock { state in
            var number: UInt64
            repeat {
                state.lastRequest += 1
                number = unguessable(state.lastRequest)
            } while state.pending[number] != nil
            state.pending.add(pending, number)
            return number
        }
    }

    private func unguessable(_ number: UInt64) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(secret)
        hasher.combine(number)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// - Returns: The request, if it still had no outcome.
    func remove(_ request: UInt64) -> PendingReply? { state.withLock { $0.pending.remove(request) } }

    /// Changes what is known of a request, and returns what is to be done; nil when the request has ended.
    private func change(
        _ request: UInt64, _ change: @Sendable (inout RequestPlace) -> RequestPlace.Step
    ) -> (step: RequestPlace.Step, channel: SendChannel)? {
        state.withLock { state in
            state.pending.change(request) { pending in (change(&pending.place), pending.channel) }
        }
    }

    func arrived(_ reply: ReceivedMessage) {
        let pending = state.withLock { state in
            let pending = state.pending.remove(reply.header.request)
            if pending == nil { state.late += 1 }
            return pending
        }
        guard let pending else { return }
        let isFailure = reply.header.kind == .failure
        pending.outcome.set(
            isFailure ? .failure(PortError(failure: reply, of: pending.channel.latest.identity)) : .success(reply))
    }

    /// The server has refused the request. Only a process that has the request knows its number.
    func fail(_ request: UInt64, _ error: (PortIdentity) -> PortError) {
        let pending = state.withLock { $0.pending.remove(request) }
        if let pending { pending.outcome.set(.failure(error(pending.channel.latest.identity))) }
    }

    // MARK: Sending

    /// The request goes to another home, to which its port has moved before it was sent.
    func readdress(_ request: UInt64, to home: PortID) {
        // Nil for a port that is gone. Then the sender learns that.
        guard let channel = channels.existing(home) else { return }
        withExtendedLifetime(state.withLock { $0.pending[request]?.channel }) {
            state.withLock { state in
                guard var pending = state.pending.remove(request) else { return }
                pending.place.readdress(to: home)
                if pending.place.home == home { pending.channel = channel }
                state.pending.add(pending, request)
            }
        }
    }

    func noteSent(_ request: UInt64) {
        guard let (step, home) = change(request, { $0.noteSent() }) else { return }
        switch step {
        case .takeReplies: portBecameInvalid(home.id)
        case .askThere: ask(home, for: request)
        case .nothing, .follow, .end: break
        }
    }

    // MARK: Following

    /// The request has gone with its port from a home to the next one.
    func movedOn(_ request: UInt64, from home: PortID) {
        switch change(request, { $0.movedOn(from: home) })?.step {
        case .follow?: follow(request)
        case .takeReplies?: takeReplies(of: home)
        case .nothing?, .askThere?, .end?, nil: break
        }
    }

    /// A home that was asked has the request.
    func isHere(_ request: UInt64, at home: PortID) {
        _ = change(request) { place in
            place.isHere(at: home)
            return .nothing
        }
    }

    /// A home says that the request has no answer.
    func unanswered(_ request: UInt64, _ error: @escaping @Sendable (PortIdentity) -> PortError) {
        guard let (step, home) = change(request, { $0.unanswered() }) else { return }
        if step == .takeReplies { endAfterReplies(request, at: home.id, error) } else { fail(request, error) }
    }

    /// A request that ends with an error, unless its reply comes before.
    private struct Ending {
        let request: UInt64
        /// The last home of its port.
        let home: PortID
        let error: @Sendable (PortIdentity) -> PortError
    }

    /// Takes the replies of all homes, and then ends the request. The reply of a former home that lives may wait for room.
    private func endAfterReplies(
        _ request: UInt64, at home: PortID, _ error: @escaping @Sendable (PortIdentity) -> PortError
    ) {
        let isFirst = state.withLock { state in
            state.endings.append(Ending(request: request, home: home, error: error))
            return state.endings.count == 1
        }
        guard isFirst else { return }
        do {
            try housekeeping.perform {
                // A former home that has a reply may have said so while this process was stopped.
                self.statistics.control.receiveAll()
                self.endTogether(self.takeEndings())
            }
        } catch {
            for ending in takeEndings() { fail(ending.request, ending.error) }
        }
    }

    private func takeEndings() -> [Ending] { state.withLock { exchange(&$0.endings, with: []) } }

    /// Waits once for all requests whose replies come to the same port.
    private func endTogether(_ endings: [Ending]) {
        let byPort = state.withLock { state in
            Dictionary(grouping: endings) { state.pending[$0.request]?.replyPort }
        }
        for case (let port?, let endings) in byPort {
            var wait = PortEnd(port: endings[0].home, didEnd: false)
            wait.owner = .unknown
            end(endings, at: port, wait)
        }
    }

    private func end(_ endings: [Ending], at replyPort: UInt64, _ wait: PortEnd) {
        statistics.takeRings(at: replyPort)
        statistics.collect(for: replyPort) { found in
            var wait = wait
            if wait.mayHaveReply(at: replyPort, found) {
                self.housekeeping.perform(after: .milliseconds(50)) { [wait] in self.end(endings, at: replyPort, wait) }
            } else {
                self.housekeeping.perform(after: Self.handlingTime) {
                    for ending in endings { self.fail(ending.request, ending.error) }
                }
            }
        }
    }

    /// The owner of a home does not have the port any more, or is about to give it away.
    func portLeft(_ home: PortID, isTold: Bool) {
        // A home says so once for each question.
        if state.withLock({ $0.left.contains(home) }) { return }
        var takesReplies = false
        for request in state.withLock({ $0.pending.ids(to: home) }) {
            guard let (step, channel) = change(request, { $0.portLeft(home, isTold: isTold) }) else { continue }
            switch step {
            case .askThere: ask(channel, for: request)
            case .follow: follow(request)
            case .takeReplies: takesReplies = true
            case .nothing, .end: break
            }
        }
        if takesReplies { takeReplies(of: home) }
    }

    /// Takes the replies of a home that the port has left.
    private func takeReplies(of home: PortID) {
        if state.withLock({ $0.left.insert(home).inserted }) { settle(PortEnd(port: home, didEnd: false)) }
    }

    /// Asks at the next home of its port whether a request is there. Without a next home, the port's move, or its end, will
    /// be reported.
    private func follow(_ request: UInt64) {
        guard let former = state.withLock({ $0.pending[request]?.channel }) else { return }
        let home = former.latest
        let asks = state.withLock { state in
            guard var pending = state.pending.remove(request) else { return false }
            let asks = pending.channel === former && pending.place.follow(to: home.id)
            if asks { pending.channel = home }
            state.pending.add(pending, request)
            return asks
        }
        guard asks else {
            guard home === former, !home.isValid else { return }
            // A home before this one may have a reply that waits.
            if home.id == home.publicID {
                fail(request) { .becameInvalid(port: $0) }
            } else {
                endAfterReplies(request, at: home.id) { .becameInvalid(port: $0) }
            }
            return
        }
        home.watch()
        ask(home, for: request)
        // Perhaps the end of the port was reported before.
        if !home.isValid { portBecameInvalid(home.id) }
    }

    private func ask(_ home: SendChannel, for request: UInt64) {
        home.tell(.hasRequest(home.id.number, request: request))
    }

    /// The ended ports of a process to which requests wait.
    func endedChannels(to owner: Incarnation) -> [SendChannel] {
        state.withLock { state in
            state.pending.ids(toPortsOf: owner) { _ in true }.compactMap { state.pending[$0]?.channel }
        }.filter { !$0.isValid }
    }

    /// A connection to a process has begun. Questions to it, and its answers, may have been lost.
    func askAgain(_ owner: Incarnation) {
        let asked = state.withLock { state in
            state.pending.ids(toPortsOf: owner) { pending in
                pending.place.stage == .asked || pending.place.stage == .doubted
            }.compactMap { request in state.pending[request].map { (request, $0.channel) } }
        }
        for (request, home) in asked { ask(home, for: request) }
    }

    // MARK: The end of a home

    /// The end of a port that was asked, or its move to another home.
    struct PortEnd {
        let port: PortID
        /// As far as this process knows: looked at in each check.
        var owner = Owner.connected
        /// False when the port has left its owner, which lives.
        let didEnd: Bool
        /// The time for replies that were sent before. A reply may wait for room as long.
        private var patience: Patience<MonotonicInstant>
        /// The counts of messages that the ports for replies had received at the first check.
        private var received: [UInt64: Int] = [:]

        /// After this number of further messages, the messages of the dead process were taken.
        private static let surelyTaken = 10_000

        init(port: PortID, didEnd: Bool, at now: MonotonicInstant = .now) {
            (self.port, self.didEnd, patience) = (port, didEnd, Patience(.seconds(10), from: now))
        }

        enum Owner {
            case connected
            /// Between two connections.
            case unconnected
            case dead
            /// The owner is a former home, which this process may not know. It may be any sender of replies.
            case unknown
        }

        /// Whether a reply may be on its way to a port. Replies and the notice of the end travel by different
        /// connections, so the notice may arrive first.
        mutating func mayHaveReply(
            at replyPort: UInt64, _ found: StatisticsCollector.Collected, now: MonotonicInstant = .now
        ) -> Bool {
            guard let statistics = found.statistics else { return false }
            return isOnItsWay(replyPort, statistics, found) && !patience.isOver(at: now)
        }

        private mutating func isOnItsWay(
            _ replyPort: UInt64, _ statistics: PortStatistics, _ found: StatisticsCollector.Collected
        ) -> Bool {
            switch owner {
            case .connected: return statistics.waiting > 0 || found.silent.contains(port.incarnation)
            case .unknown: return statistics.waiting > 0 || !found.silent.isEmpty
            // It was not asked.
            case .unconnected: return true
            case .dead: break
            }
            // All messages of a dead process have arrived, but perhaps not all were taken.
            let first = received[replyPort, default: statistics.received]
            received[replyPort] = first
            return found.isQueued && statistics.received - first < Self.surelyTaken
        }
    }

    func portBecameInvalid(_ port: PortID) {
        let takesReplies = state.withLock { state in
            let steps = state.pending.ids(to: port).map { state.pending.change($0) { $0.place.ended(port) } }
            return steps.contains(.takeReplies)
        }
        guard takesReplies else { return }
        settle(PortEnd(port: port, didEnd: true))
    }

    private func owner(of port: PortID) -> PortEnd.Owner {
        if !statistics.control.mayBeAlive(port.incarnation) { return .dead }
        return statistics.control.isConnected(to: port.incarnation) ? .connected : .unconnected
    }

    private func settle(_ end: PortEnd) {
        let isFirst = state.withLock { state in
            state.ends.append(end)
            return state.ends.count == 1
        }
        guard isFirst else { return }
        do {
            try housekeeping.perform {
                // A process that has a reply for this one, which was stopped, has said so before.
                self.statistics.control.receiveAll()
                for end in self.takeEnds() { self.check(end) }
            }
        } catch {
            for end in takeEnds() { goOn(end) }
        }
    }

    private func takeEnds() -> [PortEnd] { state.withLock { exchange(&$0.ends, with: []) } }

    /// The message that was taken last may not have been handled before.
    private static let handlingTime = Duration.milliseconds(50)

    /// Lets the port's requests go on when no reply is on its way.
    private func check(_ end: PortEnd) {
        var end = end
        end.owner = owner(of: end.port)
        check(end, replyPorts(of: end))
    }

    private func check(_ end: PortEnd, _ replyPorts: [UInt64]) {
        guard let first = replyPorts.first else {
            return housekeeping.perform(after: Self.handlingTime) { self.goOn(end) }
        }
        statistics.collect(for: first) { found in
            var end = end
            if end.mayHaveReply(at: first, found) {
                self.housekeeping.perform(after: .milliseconds(50)) { [end] in self.check(end) }
            } else {
                self.check(end, Array(replyPorts.dropFirst()))
            }
        }
    }

    /// Takes the replies that wait in rings, and returns the ports at which others may arrive: by ZeroMQ, or from a living
    /// owner whose replies wait for room.
    private func replyPorts(of end: PortEnd) -> [UInt64] {
        Set(state.withLock { $0.pending.all(to: end.port).map(\.replyPort) }).filter {
            !statistics.takeRing(of: end.port.incarnation, at: $0) || end.owner != .dead
        }
    }

    private func goOn(_ end: PortEnd) {
        if !end.didEnd { _ = state.withLock { $0.left.remove(end.port) } }
        for request in state.withLock({ $0.pending.ids(to: end.port) }) {
            let step = change(request) { $0.repliesTaken(from: end.port, didEnd: end.didEnd) }?.step
            if step == .follow { follow(request) }
        }
    }
}

extension PortError {
    /// The error in a reply of the kind `failure`.
    fileprivate init(failure: ReceivedMessage, of port: PortIdentity) {
        var bytes: [[UInt8]] = []
        for case .bytes(let component) in failure.components { bytes.append(component) }
        let first = bytes.first ?? []
        self =
            switch RequestFailure.ID(rawValue: failure.header.id) {
            case .replyTooLarge where first.count == 16:
                first.withUnsafeBytes { bytes in
                    let (size, limit): (UInt64, UInt64) = (bytes.little(at: 0), bytes.little(at: 8))
                    return .replyTooLarge(port: port, size: Int(clamping: size), limit: Int(clamping: limit))
                }
            case .busy where bytes.count == 2 && bytes[1].count == 8:
                .serverBusy(port: port, limit: Int(clamping: bytes[1].withUnsafeBytes { $0.little(at: 0) as UInt64 }))
            case let id:
                .failed(port: port, RequestFailure(components: bytes, isUnknownRequest: id == .unknownRequest))
            }
    }
}

struct PendingReply: PendingRequest {
    /// The channel to the port at the home in ``place``.
    var channel: SendChannel
    var place: RequestPlace
    let replyPort: UInt64
    let outcome = Promise<Result<ReceivedMessage, PortError>>()

    init(channel: SendChannel, replyPort: UInt64) {
        (self.channel, self.replyPort, place) = (channel, replyPort, RequestPlace(channel.id))
    }

    var port: PortID { place.home }
}
