@testable import Ports

/// The promises about requests. Each check is a sentence of Promises.md.
final class RequestPromises {
    private struct Request {
        let asker: Process
        /// The port that is asked; nil for a name.
        let port: PortID?
        let begin = machine.now
        let bound: WaitBound
        /// The end of the time for which a patient asker waits; nil for another. The machine may sleep longer.
        let patientUntil: UInt64?
        var handled = 0
        /// The process that has sent the reply.
        var replier: Process?
        /// Whether the reply was with its asker when the call returned.
        var isKept = false
        /// The least time awake at which the reply may have found no room or connection; nil for one that was sent at once.
        var waitsUntil: UInt64?
        /// Whether a handler has failed, or will.
        var isFailing = false
        /// Whether a reply was too large for its asker.
        var hasRefusedReply = false
        /// Whether its asker was told that nobody has handled it.
        var isRefused = false
        var isOver = false
    }

    private var requests: [Request] = []
    private(set) var replyCount = 0
    var count: Int { requests.count }

    /// - Parameters:
    ///   - timeout: In milliseconds.
    ///   - isPatient: Whether the asker waits longer than any fault lasts.
    func asking(_ port: PortID?, timeout: Int, isPatient: Bool) -> UInt32 {
        machine.story.tell(machine) { "asks with request \(requests.count)" }
        requests.append(
            Request(
                asker: machine.current.process, port: port, bound: WaitBound(timeout),
                patientUntil: isPatient ? machine.now + UInt64(timeout) * 1_000_000 : nil))
        return UInt32(requests.count - 1)
    }

    /// The askers that have no outcome of their requests.
    /// - Parameter count: The requests that count.
    func unended(of count: Int) -> [String] {
        requests.indices.prefix(count).compactMap { number in
            let request = requests[number]
            guard !request.isOver, !request.asker.isDead else { return nil }
            return "request \(number) of \(request.asker) has no outcome"
        }
    }

    // MARK: In the server

    func handling(_ request: UInt32) {
        machine.story.tell(machine) { "handles request \(request)" }
        requests[Int(request)].handled += 1
        if requests[Int(request)].handled > 1 { machine.fail("request \(request) was handled twice") }
        if requests[Int(request)].isRefused { machine.fail("request \(request) was refused, and is handled") }
    }

    /// - Parameters:
    ///   - isKept: Whether the reply was sent by a ring. Others may end with their sender.
    ///   - waitsUntil: The least time awake at which the reply may have found no room or connection; nil for one that was
    ///     sent.
    func replied(_ request: UInt32, isKept: Bool, waitsUntil: UInt64?) {
        machine.story.tell(machine) { "has replied to request \(request)" }
        requests[Int(request)].replier = machine.current.process
        (requests[Int(request)].isKept, requests[Int(request)].waitsUntil) = (isKept, waitsUntil)
    }

    /// A handler is about to fail.
    func failing(_ request: UInt32) {
        machine.story.tell(machine) { "fails request \(request)" }
        requests[Int(request)].isFailing = true
    }

    func refusedReply(to request: UInt32) {
        machine.story.tell(machine) { "has too large a reply for request \(request)" }
        requests[Int(request)].hasRefusedReply = true
    }

    /// A server was told that nobody waits for the reply.
    func isCancelled(_ request: UInt32) {
        let facts = requests[Int(request)]
        // A process that exits tells its handlers so.
        if machine.current.process.isExiting { return }
        if let end = facts.patientUntil, machine.now < end, !facts.isOver, !facts.asker.isDead, !facts.asker.isExiting {
            machine.fail("request \(request) counts as cancelled, and \(facts.asker) waits for the reply")
        }
    }

    // MARK: In the asker

    func answered(_ request: UInt32, _ reply: [UInt8]?) {
        let isOwn = withUnsafeBytes(of: request) { reply?.starts(with: $0) == true }
        if !isOwn || reply?.dropFirst(4).contains(where: { $0 != UInt8(truncatingIfNeeded: request) }) != false {
            machine.fail("request \(request) has the reply to another")
        }
        if end(request, "a reply").handled == 0 {
            machine.fail("request \(request) has a reply, and nobody has handled it")
        }
        replyCount += 1
    }

    /// - Parameter ports: Knows the asked port.
    func ended(_ request: UInt32, _ error: PortError, _ ports: Promises) {
        let facts = end(request, "\(error)")
        checkReason(request, facts, error, ports)
        switch error {
        case .receiveTimedOut, .sendTimedOut: return
        case .failed(_, let failure):
            if !facts.isFailing || failure.text != "\(request)" {
                machine.fail("request \(request) has the failure of another: \(failure)")
            }
        case .replyTooLarge:
            if !facts.hasRefusedReply { machine.fail("request \(request) got: \(error), and had no such reply") }
        // “A reply that finds no room or connection for ten seconds is given up.”
        case .unanswered where facts.waitsUntil.map({ machine.timeAwake >= $0 }) ?? false: return
        // Nobody finds the way to a process whose directory was removed.
        case .unanswered, .becameInvalid: if ports.isDirectoryLost, !facts.isKept { return }
        default: break
        }
        // The replies to a process that exits find no port.
        if facts.asker.isExiting { return }
        if let replier = facts.replier, facts.isKept || !(replier.isDead || replier.hasReleasedRuntime) {
            machine.fail("the reply to request \(request) was sent, and its asker got: \(error)")
        }
    }

    /// “The end of a process […] ends every request to them.” “A request that the dead service had taken throws unanswered.
    /// All others are answered by the next service, or by the supervisor.”
    private func checkReason(_ request: UInt32, _ facts: Request, _ error: PortError, _ ports: Promises) {
        // “Its sends […] throw unavailable.” Its rights are invalid by then.
        guard let port = facts.port, !facts.asker.isExiting else { return }
        switch error {
        case .isInvalid where ports.isBeingEndedHere(port): return
        case .becameInvalid, .isInvalid:
            guard ports.isAlive(port) || ports.isLent(port) else { return }
            machine.fail("request \(request) got: \(error), and the port lives")
        case .refused:
            requests[Int(request)].isRefused = true
            if facts.handled > 0 { machine.fail("request \(request) got: \(error), and was handled") }
            guard ports.isAlive(port) || ports.comesBackWhole(port) else { return }
            machine.fail("request \(request) got: \(error), and the port lives")
        case .unanswered:
            guard facts.handled == 0, ports.isAlive(port), !ports.mayHaveLost(port, since: facts.begin),
                !ports.mayLoseByCut(port, of: facts.asker)
            else { return }
            machine.fail("request \(request) got: \(error), and nobody had taken it")
        default: break
        }
    }

    private func end(_ request: UInt32, _ outcome: String) -> Request {
        machine.story.tell(machine) { "has the outcome of request \(request): \(outcome)" }
        let facts = requests[Int(request)]
        if facts.isOver { machine.fail("request \(request) has ended twice") }
        facts.bound.check("request \(request) has its outcome")
        requests[Int(request)].isOver = true
        return facts
    }
}
