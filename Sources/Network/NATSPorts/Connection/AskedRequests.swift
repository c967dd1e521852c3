import Dispatch
import Ports
import RunLoopLocks

/// A request of this connection, which waits for answers.
protocol Asked: AnyObject, Sendable {
    /// Called in the order in which the answers come, on a thread of libnats.
    /// - Returns: Whether it was the last.
    func receive(_ answer: Frame<Answer>) -> Bool

    /// No answer follows. Called on any thread.
    func end(_ reason: AskedEnd)

    /// The frames of a stream that were taken.
    var taken: UInt32 { get }

    /// The server says how many frames of the stream it has sent.
    /// - Returns: Whether one of them is missing.
    func noteSent(_ count: UInt32) -> Bool
}

/// Why no answer follows.
enum AskedEnd: Sendable {
    /// Nobody serves the name.
    case noResponders
    /// The server has not said for some seconds that it has the request: it is gone, or cannot be reached.
    case lost
    /// The deadline has passed.
    case late
    /// The server's frames have another version.
    case otherVersion(UInt8)
}

/// The requests of a connection, by their numbers. While they wait, their askers tell the servers so every second.
/// Either side takes the other for dead after four seconds without news.
final class AskedRequests: Sendable {
    /// The time between two messages of an asker that still waits.
    static let renewal = Duration.seconds(1)
    /// The time after which a side that was not heard of counts as dead.
    static let patience = Duration.seconds(4)

    private struct Entry {
        let asked: any Asked
        /// The subject by which all servers of the name are told something.
        let control: String
        /// The subject of the server that has the request, when it is known.
        var holder: String?
        /// Nil without one, and after it has passed.
        var deadline: ContinuousClock.Instant?
        let since: ContinuousClock.Instant
        var lastHeard: ContinuousClock.Instant

        /// Whether the request was published to the subject, and no server is known to have it.
        func isWaiting(at subject: Substring) -> Bool { holder == nil && control == "\(subject).$ports" }

        /// Where to tell the server something.
        var subject: String { holder ?? control }
    }

    private struct State {
        var last: UInt64 = 0
        var entries: [UInt64: Entry] = [:]
        var isRenewing = false
        /// When the deadlines are checked next; nil for never.
        var nextCheck: ContinuousClock.Instant?
    }

    /// The subjects of the answers, without the requests' numbers.
    let prefix: String
    private let prefixLength: Int
    private let state = Lock(State())
    /// Not a task: a program whose tasks block all threads of theirs still waits for its requests.
    private let renewals = DispatchQueue(label: "NATS renewals")
    /// One timer for all deadlines. It is set when a deadline comes before all others, which is seldom, because most
    /// requests have the same timeout.
    // Sound: Dispatch locks its sources, and the reference never changes.
    nonisolated(unsafe) private let deadlines: any DispatchSourceTimer

    init(prefix: String) {
        (self.prefix, prefixLength) = (prefix, prefix.utf8.count)
        // Not the queue of the renewals, which wait while the connection takes no more bytes.
        deadlines = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "NATS deadlines"))
        deadlines.setEventHandler { [weak self] in self?.checkDeadlines() }
        deadlines.activate()
    }

    deinit { deadlines.cancel() }

    func subject(of number: UInt64) -> String { "\(prefix)\(number)" }

    /// Adds a request, which has to be removed in the end.
    /// - Parameters:
    ///   - deadline: When the request is told that it is late; nil for never.
    ///   - publish: Publishes a frame to a subject.
    func add(
        _ asked: any Asked, control: String, deadline: ContinuousClock.Instant?,
        _ publish: @escaping @Sendable ([UInt8], String) -> Void
    ) -> UInt64 {
        let now = ContinuousClock.now
        let (number, isFirst) = state.withLock { state in
            state.last += 1
            state.entries[state.last] = Entry(
                asked: asked, control: control, deadline: deadline, since: now, lastHeard: now)
            if let deadline { check(at: deadline, &state) }
            return (state.last, !exchange(&state.isRenewing, with: true))
        }
        if isFirst { renewLater(publish) }
        return number
    }

    private func renewLater(_ publish: @escaping @Sendable ([UInt8], String) -> Void) {
        let start = ContinuousClock.now
        renewals.asyncAfter(deadline: .now() + Self.renewal / .seconds(1)) { [weak self] in
            if self?.renew(after: start, publish) == true { self?.renewLater(publish) }
        }
    }

    /// - Returns: The subject to release the request by; nil when it has ended before.
    func remove(_ number: UInt64) -> String? {
        let entry = state.withLock { $0.entries.removeValue(forKey: number) }
        return entry?.subject
    }

    func setHolder(_ holder: String, of number: UInt64) {
        state.withLock { state in
            state.entries[number]?.holder = holder
            state.entries[number]?.lastHeard = .now
        }
    }

    /// The subject of the server that has the request.
    func holder(of number: UInt64) -> String? { state.withLock { $0.entries[number]?.holder } }

    // MARK: Answers

    func receive(_ delivery: Delivery) {
        guard let number = UInt64(Substring(delivery.subject.utf8.dropFirst(prefixLength))) else { return }
        let asked = state.withLock { $0.entries[number]?.asked }
        if delivery.hasNoResponders {
            end(number)
            asked?.end(.noResponders)
            return
        }
        // Anybody who may publish here can send nonsense.
        let answer: Frame<Answer>
        do throws(MalformedFrame) { answer = try Frame(from: delivery.bytes) } catch {
            guard let version = error.version else { return }
            end(number)
            asked?.end(.otherVersion(version))
            return
        }
        if case .held(let holder, let sent) = answer.head {
            for (number, count) in sent { noteSent(count, of: number, by: holder) }
            return
        }
        guard let asked else { return }
        if case .begun(let holder) = answer.head { setHolder(holder, of: number) }
        if asked.receive(answer) { end(number) }
    }

    /// Ends the requests that the server of NATS does not let through, because it says nothing to their inboxes.
    /// - Parameter failure: The words of the server.
    func noteFailure(_ failure: String) {
        let parts = failure.split(separator: "\"", omittingEmptySubsequences: false)
        guard parts.count > 1, parts[0].lowercased() == "permissions violation for publish to " else { return }
        let subject = parts[1]
        let denied = state.withLock { state in
            state.entries.filter { $0.value.isWaiting(at: subject) }
        }
        let failure = RequestFailure(
            fault: "the user of NATS may not publish to \(subject): add it to the user's permissions")
        for (number, entry) in denied where entry.asked.receive(Frame(.failed(failure))) { end(number) }
    }

    private func noteSent(_ count: UInt32, of number: UInt64, by holder: String) {
        setHolder(holder, of: number)
        let asked = state.withLock { $0.entries[number]?.asked }
        if asked?.noteSent(count) == true { end(number) }
    }

    private func end(_ number: UInt64) {
        // Released after the lock.
        _ = state.withLock { $0.entries.removeValue(forKey: number) }
    }

    // MARK: Deadlines

    private func check(at deadline: ContinuousClock.Instant, _ state: inout State) {
        if let next = state.nextCheck, next <= deadline { return }
        state.nextCheck = deadline
        let rest = max(.zero, deadline - .now) / .seconds(1)
        deadlines.schedule(deadline: .now() + rest, leeway: .milliseconds(1))
    }

    /// Tells the requests whose deadlines have passed. Their askers remove them.
    private func checkDeadlines() {
        let now = ContinuousClock.now
        let late = state.withLock { state in
            var late: [any Asked] = []
            var next: ContinuousClock.Instant?
            for (number, entry) in state.entries {
                guard let deadline = entry.deadline else { continue }
                if deadline <= now {
                    state.entries[number]?.deadline = nil
                    late.append(entry.asked)
                } else {
                    next = min(next ?? deadline, deadline)
                }
            }
            state.nextCheck = nil
            if let next { check(at: next, &state) }
            return late
        }
        for asked in late { asked.end(.late) }
    }

    // MARK: Leases

    /// Tells the servers which requests still wait, and ends those whose servers are gone.
    /// - Parameter start: The time of the last renewal.
    /// - Returns: False when there are no requests left, and nobody renews any more.
    private func renew(
        after start: ContinuousClock.Instant, _ publish: @Sendable ([UInt8], String) -> Void
    ) -> Bool {
        let now = ContinuousClock.now
        // This process was stopped, or had no processor: the servers have not been asked.
        let isLate = now - start > Self.renewal * 2
        var (lost, renewed): ([any Asked], [String: [(UInt64, UInt32)]]) = ([], [:])
        let goesOn = state.withLock { state in
            for (number, entry) in state.entries {
                if isLate { state.entries[number]?.lastHeard = now }
                if !isLate, now - entry.lastHeard > Self.patience {
                    lost.append(entry.asked)
                    state.entries[number] = nil
                } else if now - entry.since >= Self.renewal / 2 {
                    renewed[entry.subject, default: []].append((number, entry.asked.taken))
                }
            }
            if state.entries.isEmpty { state.isRenewing = false }
            return !state.entries.isEmpty
        }
        for asked in lost { asked.end(.lost) }
        for (subject, requests) in renewed {
            // So that the answer is small, too.
            for start in stride(from: 0, to: requests.count, by: 1000) {
                let taken = Dictionary(uniqueKeysWithValues: requests[start...].prefix(1000))
                publish(Frame(Question.hold(asker: prefix, wantsAnswer: true, taken: taken)).bytes, subject)
            }
        }
        return goesOn
    }
}
