import RunLoopLocks
import RunLoops

/// The requests of a runtime that wait for their replies.
final class PendingReplies: Sendable {
    private struct State {
        var pending = PendingTable<UInt64, PendingReply>()
        var lastRequest: UInt64 = 0
        var late = 0
    }

    private let channels: ChannelTable
    private var housekeeping: Housekeeping { channels.housekeeping }
    private let statistics: StatisticsCollector
    private let state = Lock(State())
    /// Makes numbers that other processes cannot guess, because a process that knows a request's number can answer the
    /// request.
    private let secret = UInt128.random(in: 0 ... .max)

    /// The longest wait for replies that were sent before their port's end. A reply may wait for room as long.
    private static let longestTransit = Duration.seconds(10)

    init(_ channels: ChannelTable, _ statistics: StatisticsCollector) {
        self.channels = channels
        self.statistics = statistics
    }

    /// The replies that came after their requests had ended.
    var lateCount: Int { state.withLockUnlessForked { $0.late } ?? 0 }
    func pendingCount(to port: PortID) -> Int { state.withLock { $0.pending.count(to: port) } }

    /// The requests that wait, by port.
    var counts: [PortID: Int] { state.withLock { $0.pending.counts } }

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

    /// - Returns: Whether the request still had no outcome.
    func remove(_ request: UInt64) -> Bool { state.withLock { $0.pending.remove(request) } != nil }

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

    /// The server has dropped the request. Only a process that has the request knows its number.
    func fail(_ request: UInt64, _ error: (PortIdentity) -> PortError) {
        let pending = state.withLock { $0.pending.remove(request) }
        if let pending { pending.outcome.set(.failure(error(pending.channel.latest.identity))) }
    }

    /// The request has gone with its port to another home. Only a process that has the request knows its number.
    func moved(_ request: UInt64) {
        guard let (former, home) = follow(request, isAsked: false), home !== former else { return }
        home.watch()
        // Perhaps the end of the port was reported before.
        if !home.isValid { portBecameInvalid(home.id) }
    }

    /// Notes that the request is at the present home of its port.
    /// - Parameter isAsked: Whether its owner is asked for it.
    /// - Returns: Its former home and the present one; nil when the request has ended.
    private func follow(_ request: UInt64, isAsked: Bool) -> (former: SendChannel, home: SendChannel)? {
        guard let former = state.withLock({ $0.pending[request]?.channel }) else { return nil }
        let home = former.latest
        let isThere = state.withLock { state in
            guard var pending = state.pending.remove(request) else { return false }
            (pending.channel, pending.isAsked) = (home, isAsked)
            state.pending.add(pending, request)
            return true
        }
        return isThere ? (former, home) : nil
    }

    /// The owner of a port that was asked for requests does not have it any more.
    func askAgain(_ port: PortID) {
        for request in state.withLock({ $0.pending.ids(to: port, where: \.isAsked) }) { ask(for: request) }
    }

    /// Asks the present owner of its port whether a request is there, whose former owner has ended.
    private func ask(for request: UInt64) {
        guard let (former, home) = follow(request, isAsked: true) else { return }
        guard home !== former else { return }
        home.watch()
        home.tell(.hasRequest(home.id.number, request: request))
        if !home.isValid { portBecameInvalid(home.id) }
    }

    /// The end of a port that was asked.
    private struct PortEnd {
        let port: PortID
        let isOwnerAlive: Bool
        let deadline = MonotonicInstant.now + PendingReplies.longestTransit
        /// The counts of messages that the ports for replies had received at the first check.
        var received: [UInt64: Int] = [:]

        /// After this number of further messages, the messages of the dead process were taken.
        private static let surelyTaken = 10_000

        /// Whether a reply may be on its way to a port. Replies and the notice of the end travel by different
        /// connections, so the notice may arrive first.
        mutating func mayHaveReply(at replyPort: UInt64, _ found: StatisticsCollector.Collected) -> Bool {
            guard let statistics = found.statistics, !deadline.hasPassed else { return false }
            if isOwnerAlive { return statistics.waiting > 0 || found.silent.contains(port.incarnation) }
            // All messages of a dead process have arrived, but perhaps not all were taken.
            let first = received[replyPort, default: statistics.received]
            received[replyPort] = first
            return found.isQueued && statistics.received - first < Self.surelyTaken
        }
    }

    func portBecameInvalid(_ port: PortID) {
        guard pendingCount(to: port) > 0 else { return }
        let end = PortEnd(port: port, isOwnerAlive: statistics.control.isAlive(port.incarnation))
        if (try? housekeeping.perform { self.settle(end) }) == nil { fail(port) }
    }

    /// Fails the port's requests when no reply is on its way.
    private func settle(_ end: PortEnd, _ rest: [UInt64]? = nil) {
        let replyPorts = rest ?? replyPorts(of: end)
        guard let first = replyPorts.first else {
            // The message that was taken last may not have been handled.
            return housekeeping.perform(after: .milliseconds(50)) { self.fail(end.port) }
        }
        statistics.collect(for: first) { found in
            var end = end
            if end.mayHaveReply(at: first, found) {
                self.housekeeping.perform(after: .milliseconds(50)) { [end] in self.settle(end) }
            } else {
                self.settle(end, Array(replyPorts.dropFirst()))
            }
        }
    }

    /// Takes the replies that wait in lanes, and returns the ports at which others may arrive: by ZeroMQ, or from a living
    /// owner whose replies wait for room.
    private func replyPorts(of end: PortEnd) -> [UInt64] {
        Set(state.withLock { $0.pending.all(to: end.port).map(\.replyPort) }).filter {
            !statistics.takeLane(of: end.port.incarnation, at: $0) || end.isOwnerAlive
        }
    }

    private func fail(_ port: PortID) {
        let requests = state.withLock { $0.pending.ids(to: port) { _ in true } }
        for request in requests {
            guard let channel = state.withLock({ $0.pending[request]?.channel }), channel.id == port else { continue }
            let home = channel.latest
            if home !== channel, home.isValid {
                ask(for: request)
            } else {
                fail(request) { _ in .becameInvalid(port: home.identity) }
            }
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

struct PendingReply: Request {
    /// The channel to the port that has the request.
    var channel: SendChannel
    /// Whether the owner of the port was asked for the request, and has not answered.
    var isAsked = false
    let replyPort: UInt64
    let outcome = Promise<Result<ReceivedMessage, PortError>>()

    var port: PortID { channel.id }
}
