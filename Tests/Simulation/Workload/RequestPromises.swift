@testable import Ports

/// The promises about requests. Each check is a sentence of Promises.md.
final class RequestPromises {
    private struct Request {
        let asker: Process
        /// Whether the asker waits until there is an outcome.
        let isPatient: Bool
        var handled = 0
        /// The process that has sent the reply.
        var replier: Process?
        /// Whether the reply was with its asker when the call returned.
        var isKept = false
        /// Whether a handler has failed, or will.
        var isFailing = false
        /// Whether a reply was too large for its asker.
        var hasRefusedReply = false
        var isOver = false
    }

    private var requests: [Request] = []
    private(set) var replyCount = 0
    var count: Int { requests.count }

    func asking(isPatient: Bool) -> UInt32 {
        machine.story.tell(machine) { "asks with request \(requests.count)" }
        requests.append(Request(asker: machine.current.process, isPatient: isPatient))
        return UInt32(requests.count - 1)
    }

    /// The patient askers that have no outcome of their requests.
    /// - Parameter count: The requests that count.
    func unended(of count: Int) -> [String] {
        requests.indices.prefix(count).compactMap { number in
            let request = requests[number]
            guard request.isPatient, !request.isOver, !request.asker.isDead else { return nil }
            return "request \(number) of \(request.asker) has no outcome"
        }
    }

    // MARK: In the server

    func handling(_ request: UInt32) {
        machine.story.tell(machine) { "handles request \(request)" }
        requests[Int(request)].handled += 1
        if requests[Int(request)].handled > 1 { machine.fail("request \(request) was handled twice") }
    }

    /// - Parameter isKept: Whether the reply was sent by a lane. Others may end with their sender.
    func replied(_ request: UInt32, isKept: Bool) {
        machine.story.tell(machine) { "has replied to request \(request)" }
        requests[Int(request)].replier = machine.current.process
        requests[Int(request)].isKept = isKept
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
        if facts.isPatient, !facts.isOver, !facts.asker.isDead {
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

    func ended(_ request: UInt32, _ error: PortError) {
        let facts = end(request, "\(error)")
        switch error {
        case .receiveTimedOut, .sendTimedOut: return
        case .failed(_, let failure):
            if !facts.isFailing || failure.text != "\(request)" {
                machine.fail("request \(request) has the failure of another: \(failure)")
            }
        case .replyTooLarge:
            if !facts.hasRefusedReply { machine.fail("request \(request) got: \(error), and had no such reply") }
        default: break
        }
        if let replier = facts.replier, facts.isKept || !replier.isDead {
            machine.fail("the reply to request \(request) was sent, and its asker got: \(error)")
        }
    }

    private func end(_ request: UInt32, _ outcome: String) -> Request {
        machine.story.tell(machine) { "has the outcome of request \(request): \(outcome)" }
        let facts = requests[Int(request)]
        if facts.isOver { machine.fail("request \(request) has ended twice") }
        requests[Int(request)].isOver = true
        return facts
    }
}
