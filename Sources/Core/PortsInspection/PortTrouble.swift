import Ports

// The troubles of ports and their remedies, in words.

/// A trouble, in a sentence, and what to do.
package typealias Trouble = (text: String, remedy: String?)

extension PortReport {
    /// The port's trouble; nil for none. An unserved port without messages has none.
    package var trouble: Trouble? {
        let pid = registration.pid
        let owner = (registration.port.program.map { "\($0) (pid \(pid))" } ?? "process \(pid)") + ", its owner,"
        return switch answer {
        case .success(let info):
            info.condition == .unserved && info.queue.waiting == 0 ? nil : info.troubleWithRemedy
        case .failure(.stopped):
            ("\(owner) is stopped", "kill -CONT \(pid) continues it, unless a debugger has stopped it")
        case .failure(.busy): ("\(owner) answers as many others as it takes", "ask again soon")
        case .failure(.unasked(let error)): ("portctl cannot ask its owner: \(error)", nil)
        case .failure: ("\(owner) does not answer", nil)
        }
    }

    /// The trouble, and the sender of most of the messages that wait; nil for no trouble.
    package var troubleWithSender: String? {
        guard let trouble = trouble?.text else { return nil }
        // The text of a flood names the sender.
        guard let info, [.stuck, .unserved].contains(info.condition), info.queue.waiting > 0,
            let sender = info.busiestSender
        else { return trouble }
        return trouble + "; most of the messages come from \(sender.program ?? "?") (pid \(sender.pid))"
    }
}

extension PortInfo {
    package var troubleWithRemedy: Trouble? { trouble.map { ($0, remedy) } }

    /// The trouble of the port, in a sentence; nil for none.
    public var trouble: String? {
        let wait = queue.waiting == 1 ? "1 message waits" : "\(queue.waiting) messages wait"
        switch condition {
        case .served, .busy, .silent, .stopped, .unknown: return nil
        case .unserved:
            let lack = lackOfTakers
            return queue.waiting == 0 ? "nobody takes its messages: \(lack)" : "\(wait), and nobody takes them: \(lack)"
        case .stuck:
            if queue.waiting == 0 {
                let message = handling.first?.subject ?? "a message"
                return "\(message) is being handled, and for \(shown(handlingTime)) no end was seen: \(block)"
            }
            let inHand = isFull ? nil : handling.first
            return "\(wait), and none was taken in a look of \(shown(queue.observed)): "
                + (inHand.map { "\($0); " } ?? "") + block
        case .slow: return (progress ?? oneWay).map { $0 + awaits }
        case .flooded:
            return "\(wait), \(backlog)" + (blame.map { ": \($0)" } ?? "")
                + (isSlow ? progress.map { "; \($0)" } ?? "" : "")
        }
    }

    /// The remedy for the ``trouble``; nil for none.
    public var remedy: String? {
        switch condition {
        case .served, .busy, .silent, .stopped, .unknown: nil
        case .unserved:
            if !takers.hasHandler, !takers.loops.isEmpty || takers.queue != nil {
                "give the port a handler, or take its messages with receive(before:) or `messages`"
            } else if !takers.loops.isEmpty {
                "run the loop in a mode that has the port, or schedule the port in the common modes"
            } else {
                "schedule the port in a loop that runs, set a queue, or take its messages in a thread or a task"
            }
        case .stuck where takers.loops.isEmpty && takers.queue == nil && takers.busyTasks > 0:
            "see what the task awaits before it asks for the next message; `serve`, or a task group, handles several at a time"
        case .stuck where isFull:
            "see what the handlers await, and give them a deadline; `atMost` sets how many run at a time"
        case .stuck where takers.isReceiverAway && takerTexts.count == 1:
            "see what the program does before it calls `receive(before:)` again, and whether it ever does"
        case .stuck:
            "a debugger" + (pid > 0 ? ", or `eu-stack -p \(pid)` of the package elfutils," : "")
                + " shows where the thread is; let handlers return soon"
        case .slow,
            .flooded where isSlow:
            if takers.handlers == nil {
                "see why its right to reply is neither used nor released"
            } else if oldestRequest?.isCancelled == true {
                "its asker has given up, and its handler ignores that it was cancelled: let it await something that can "
                    + "be cancelled; a restart ends it"
            } else {
                "see what its handler awaits, and give it a deadline; one that is to wait can be a stream, or `mayLast`"
            }
        case .flooded where busiestSender?.hasEnded != false:
            "handle messages faster, or wait; a smaller `queueLimit` makes such a sender wait instead"
        case .flooded: "let that process send less, or handle messages faster; a full queue makes its senders wait"
        }
    }

    /// The reason why nobody takes messages.
    private var lackOfTakers: String {
        if !takers.hasHandler, !takers.loops.isEmpty || takers.queue != nil { return "the port has no handler" }
        if let loop = takers.loops.first { return "\(loop)" }
        return queue.received == 0
            ? "no loop, queue, task or thread serves the port"
            : "the task or thread that has taken \(queue.received) before does not ask for more: it is busy, or has ended"
    }

    /// The reason why nothing was taken.
    private var block: String {
        if isFull, let handlers = takers.handlers {
            let oldest =
                oldestRequest.map { "; the oldest request in progress: \($0)" } ?? oneWay.map { "; \($0)" } ?? ""
            return "\(handlers.fullText)\(mainAsker)\(oldest)\(awaits)"
        }
        let busyLoop = takers.loops.first { $0.serves && $0.busyFor != nil }
        return (busyLoop?.description ?? takerTexts.first ?? "a thread handles a message") + awaits
    }

    /// The requests in progress; nil for none.
    private var progress: String? {
        guard let oldestRequest else { return nil }
        return requests.count == 1
            ? "1 request is in progress: \(oldestRequest)"
            : "\(requests.count) requests are in progress, the oldest: \(oldestRequest)"
    }

    /// The messages in handlers of `serve` that want no reply; nil for none.
    private var oneWay: String? {
        guard let oldest = handling.first else { return nil }
        return handling.count == 1
            ? "1 message is being handled: \(oldest)"
            : "\(handling.count) messages or more are being handled, the oldest: \(oldest)"
    }

    /// The work that the waiting messages mean.
    private var backlog: String {
        guard queue.handled > 0 else { return "more than are soon handled" }
        let seconds = queue.observed / .seconds(1) * Double(queue.waiting) / Double(queue.handled)
        return "about \(shown(seconds: seconds)) of work"
            + (comesFast ? ", and more come as fast as they are taken" : "")
    }

    /// The sender of most of the waiting messages.
    private var blame: String? {
        guard let busiest = busiestSender else { return nil }
        let (sender, taken) = ("\(busiest)" + (busiest.hasEnded ? "," : ""), takenInSample)
        if busiest.taken > taken / 2 { return "\(sender) has sent \(busiest.taken) of the last \(taken) taken" }
        if comesFast, busiest.recently > recentlySent / 2 {
            return "\(sender) has sent \(busiest.recently) of the last \(recentlySent)"
        }
        let sent = senders.reduce(0) { $0 + $1.sinceEmpty }
        return "\(sender) has sent \(busiest.sinceEmpty) of the \(sent) that came since none waited"
    }

    /// The process that has asked most of the requests in progress.
    private var mainAsker: String {
        let asked = senders.reduce(0) { $0 + $1.requests }
        guard let asker = senders.max(by: { $0.requests < $1.requests }), asker.requests > 1 else { return "" }
        return "; \(asker)\(asker.hasEnded ? "," : "") has asked \(asker.requests) of the \(asked) requests in progress"
    }

    /// The ports that the owner waits for.
    private var awaits: String {
        if awaited.isEmpty { return "" }
        let (shown, rest) = (awaited.prefix(3).map(\.description), awaited.count - 3)
        return "; its process waits for \(shown.joined(separator: ", "))" + (rest > 0 ? " and \(rest) more" : "")
    }
}

extension PortInfo.Takers.Handlers {
    /// The reason why nothing more is taken.
    fileprivate var fullText: String {
        guard let fullLane, count < limit else { return "all \(limit) handlers are at work" }
        let lane = fullLane.isEmpty ? "requests without a lane" : "the lane “\(fullLane.printable)”"
        return "all handlers of \(lane) are at work, and no more requests may wait for them"
    }
}
