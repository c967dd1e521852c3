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
        /// What waits for replies, and for the housekeeping thread.
        var steps: [NextStep] = []
    }

    private let channels: ChannelTable
    private var housekeeping: Housekeeping { channels.housekeeping }
    private let statistics: StatisticsCollector
    private let drain: ReplyDrain
    private let state = Lock(State())
    /// Makes numbers that other processes cannot guess, because a process that knows a request's number can answer the
    /// request.
    private let secret = UInt128.random(in: 0 ... .max)

    init(_ channels: ChannelTable, _ statistics: StatisticsCollector) {
        (self.channels, self.statistics) = (channels, statistics)
        drain = ReplyDrain(statistics, channels.housekeeping)
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
        takeReplies(before: .end(Ending(request: request, home: home, error: error)))
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
        guard state.withLock({ $0.left.insert(home).inserted }) else { return }
        takeReplies(before: .goOn(ReplyWait(port: home, didEnd: false)))
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

    func portBecameInvalid(_ port: PortID) {
        let takesReplies = state.withLock { state in
            let steps = state.pending.ids(to: port).map { state.pending.change($0) { $0.place.ended(port) } }
            return steps.contains(.takeReplies)
        }
        guard takesReplies else { return }
        takeReplies(before: .goOn(ReplyWait(port: port, didEnd: true)))
    }

    // MARK: Taking replies

    /// What is to be done when the replies are taken that are on their way.
    private enum NextStep {
        /// The requests of a home go on.
        case goOn(ReplyWait)
        case end(Ending)
    }

    private func takeReplies(before step: NextStep) {
        let isFirst = state.withLock { state in
            state.steps.append(step)
            return state.steps.count == 1
        }
        guard isFirst else { return }
        do {
            try housekeeping.perform {
                // A process that has a reply for this one, which was stopped, has said so before.
                self.statistics.control.receiveAll()
                self.takeReplies(before: self.takeSteps())
            }
        } catch {
            for step in takeSteps() { carryOut(step) }
        }
    }

    private func takeSteps() -> [NextStep] { state.withLock { exchange(&$0.steps, with: []) } }

    private func takeReplies(before steps: [NextStep]) {
        var endings: [Ending] = []
        for step in steps {
            switch step {
            case .goOn(let wait): drain.begin(wait, at: replyPorts) { self.carryOut(step) }
            case .end(let ending): endings.append(ending)
            }
        }
        // One wait for all requests whose replies come to the same port.
        let byPort = state.withLock { state in
            Dictionary(grouping: endings) { state.pending[$0.request]?.replyPort }
        }
        for case (let port?, let endings) in byPort {
            drain.begin(ReplyWait(port: endings[0].home, didEnd: false), at: { self.replyPort(port, &$0) }) {
                for ending in endings { self.carryOut(.end(ending)) }
            }
        }
    }

    private func carryOut(_ step: NextStep) {
        switch step {
        case .goOn(let wait): goOn(wait)
        case .end(let ending): fail(ending.request, ending.error)
        }
    }

    /// Takes the replies of a home that wait in rings, and returns the ports at which others may arrive: by ZeroMQ, or from a
    /// living owner whose replies wait for room.
    private func replyPorts(_ wait: inout ReplyWait) -> [UInt64] {
        wait.owner = owner(of: wait.port)
        let (home, owner) = (wait.port, wait.owner)
        return Set(state.withLock { $0.pending.all(to: home).map(\.replyPort) }).filter {
            !statistics.takeRing(of: home.incarnation, at: $0) || owner != .dead
        }
    }

    /// Takes the replies of all processes that wait in rings.
    private func replyPort(_ port: UInt64, _ wait: inout ReplyWait) -> [UInt64] {
        wait.owner = .unknown
        statistics.takeRings(at: port)
        return [port]
    }

    private func owner(of port: PortID) -> ReplyWait.Owner {
        if !statistics.control.mayBeAlive(port.incarnation) { return .dead }
        return statistics.control.isConnected(to: port.incarnation) ? .connected : .unconnected
    }

    private func goOn(_ end: ReplyWait) {
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
