import RunLoops

extension PortService.Loop: CustomStringConvertible {
    /// The thread, the modes, and what the loop is doing.
    public var description: String {
        let thread = "the loop of thread \(thread) “\(threadName)”, in \(Self.text(modes))"
        guard let mode = running.last else { return "\(thread): it does not run" }
        let place = serves ? "it runs in mode \(mode)" : "it runs in another mode, \(mode)"
        guard let busyFor else { return "\(thread): \(place)" + (isWaiting ? ", and waits for work" : "") }
        let state = isComputing ? "computing" : "waiting in the kernel"
        let time = (isBusyForLonger ? "at least " : "") + shown(busyFor)
        return "\(thread): \(place), and has been busy for \(time), now in \(callout ?? "its own work"), \(state)"
    }

    private static func text(_ modes: [String]) -> String {
        (modes.count == 1 ? "mode " : "modes ") + modes.joined(separator: ", ")
    }
}

extension PortService.Sender: CustomStringConvertible {
    /// The program without its folders, the process id, and whether the process has ended.
    public var description: String {
        ProcessIdentity(pid: pid, path: program).description + (hasEnded ? ", which has ended" : "")
    }
}

extension PortService.Handled: CustomStringConvertible {
    /// The message by the name of its type, else by its id, its sender, and for how long a handler has it.
    public var description: String {
        "\(subject), in its handler for \(isOlder ? "at least " : "")\(shown(age))"
    }

    /// The message and its sender.
    fileprivate var subject: String {
        let message = name?.printable ?? "a \(isRequest ? "request" : "message") of id \(id)"
        let isKnown = pid != 0 || program != nil
        return message + (isKnown ? " of \(ProcessIdentity(pid: pid, program: program))" : "")
    }
}

extension PortService.Request: CustomStringConvertible {
    /// The request by the name of its type, else by its id, its asker, and when it was taken.
    public var description: String {
        let subject = name?.printable ?? "a request of id \(id)"
        let asker = ProcessIdentity(pid: pid, program: program)
        let outcome =
            isCancelled ? ", not waited for any more" : isReplying ? ", whose reply waits for room at the asker" : ""
        return "\(subject) of \(asker), taken \(shown(age)) ago" + outcome
    }
}

extension PortService.Handlers {
    /// Why nothing more is taken.
    fileprivate var fullText: String {
        guard let fullLane, count < limit else { return "all \(limit) handlers are at work" }
        let lane = fullLane.isEmpty ? "requests without a lane" : "the lane “\(fullLane.printable)”"
        return "all handlers of \(lane) are at work, and no more requests may wait for them"
    }
}

extension PortService.Awaited: CustomStringConvertible {
    /// The port, and what is waited for.
    public var description: String {
        let wishes = [(replies, "repl", "y", "ies"), (senders, "sender", "", "s")].filter { $0.0 > 0 }.map {
            "\($0.0) \($0.1)\($0.0 == 1 ? $0.2 : $0.3)"
        }
        return "\(title) (\(wishes.joined(separator: ", ")))"
    }
}

extension PortService {
    /// By whom the port is served, each in a sentence; empty for nobody.
    public var takers: [String] {
        var takers = loops.map(\.description)
        if let queue { takers.append("the dispatch queue “\(queue.label)”" + (queue.isBusy ? ", which is busy" : "")) }
        let others = [
            (waitingThreads, "a thread that waits for a message", "threads that wait for a message"),
            (max(0, waitingTasks - servingTasks), "a task that waits for a message", "tasks that wait for a message"),
            (busyTasks, "a task that handles a message in `for await`", "tasks that handle messages in `for await`"),
            (descriptors, "a loop of another kind, by a descriptor", "loops of other kinds, by descriptors"),
        ]
        takers += others.filter { $0.0 > 0 }.map { $0.0 == 1 ? $0.1 : "\($0.0) \($0.2)" }
        if let handlers {
            let limit = handlers.limit < FieldReader.mostCount ? ", at most \(handlers.limit) at a time" : ""
            takers.append("tasks, \(handlers.count) at work\(limit)")
        }
        if isReceiverAway {
            takers.append(
                "a thread or task that has taken a message with `receive(before:)`: it handles that, or has ended")
        }
        return takers
    }

    /// What is wrong with the port, in a sentence; nil for nothing.
    public var trouble: String? {
        let wait = waiting == 1 ? "1 message waits" : "\(waiting) messages wait"
        switch condition {
        case .served, .busy: return nil
        case .unserved:
            return waiting == 0 ? "nobody takes its messages: \(lack)" : "\(wait), and nobody takes them: \(lack)"
        case .stuck:
            if waiting == 0 {
                let message = handling.first?.subject ?? "a message"
                return "\(message) is being handled, and for \(shown(handlingTime)) no end was seen: \(block)"
            }
            let inHand = isFull ? nil : handling.first
            return "\(wait), and none was taken in a look of \(shown(observed)): "
                + (inHand.map { "\($0); " } ?? "") + block
        case .slow: return (progress ?? oneWay).map { $0 + awaits }
        case .flooded:
            return "\(wait), \(backlog)" + (blame.map { ": \($0)" } ?? "")
                + (isSlow ? progress.map { "; \($0)" } ?? "" : "")
        }
    }

    /// The requests in progress; nil for none.
    private var progress: String? {
        guard let oldestRequest else { return nil }
        return requestCount == 1
            ? "1 request is in progress: \(oldestRequest)"
            : "\(requestCount) requests are in progress, the oldest: \(oldestRequest)"
    }

    /// The messages in handlers of `serve` that want no reply; nil for none.
    private var oneWay: String? {
        guard let oldest = handling.first else { return nil }
        return handling.count == 1
            ? "1 message is being handled: \(oldest)"
            : "\(handling.count) messages or more are being handled, the oldest: \(oldest)"
    }

    /// How much the messages that wait are.
    private var backlog: String {
        guard handled > 0 else { return "more than are soon handled" }
        let time = observed / .seconds(1) * Double(waiting) / Double(handled)
        return "about \(shown(seconds: time)) of work" + (comesFast ? ", and more come as fast as they are taken" : "")
    }

    /// Who has sent most of them.
    private var blame: String? {
        guard let busiest = busiestSender else { return nil }
        let (sender, taken) = ("\(busiest)" + (busiest.hasEnded ? "," : ""), takenInSample)
        if busiest.taken > taken / 2 { return "\(sender) has sent \(busiest.taken) of the last \(taken) taken" }
        if comesFast, busiest.recently > recentlySent / 2 {
            return "\(sender) has sent \(busiest.recently) of the last \(recentlySent)"
        }
        let sent = senders.reduce(0) { $0 &+ $1.sinceEmpty }
        return "\(sender) has sent \(busiest.sinceEmpty) of the \(sent) that came since none waited"
    }

    /// What to do against ``trouble``.
    public var remedy: String? {
        switch condition {
        case .served, .busy: nil
        case .unserved:
            if !hasHandler, !loops.isEmpty || queue != nil {
                "give the port a handler, or take its messages with receive(before:) or `messages`"
            } else if !loops.isEmpty {
                "run the loop in a mode that has the port, or schedule the port in the common modes"
            } else {
                "schedule the port in a loop that runs, set a queue, or take its messages in a thread or a task"
            }
        case .stuck where loops.isEmpty && queue == nil && busyTasks > 0:
            "see what the task awaits before it asks for the next message; `serve`, or a task group, handles several at a time"
        case .stuck where isFull:
            "see what the handlers await, and give them a deadline; `atMost` sets how many run at a time"
        case .stuck where takers.count == 1 && isReceiverAway:
            "see what the program does before it calls `receive(before:)` again, and whether it ever does"
        case .stuck:
            "a debugger" + (pid > 0 ? ", or `eu-stack -p \(pid)` of the package elfutils," : "")
                + " shows where the thread is; let handlers return soon"
        case .slow,
            .flooded where isSlow:
            slowRemedy
        case .flooded where busiestSender?.hasEnded != false:
            "handle messages faster, or wait; a smaller `queueLimit` makes such a sender wait instead"
        case .flooded: "have that process send less, or handle messages faster; a full queue makes its senders wait"
        }
    }

    private var slowRemedy: String {
        if handlers == nil { return "see why its right to reply is neither used nor released" }
        return oldestRequest?.isCancelled == true
            ? "its asker has given up, and its handler ignores that it was cancelled: have it await what can be "
                + "cancelled; a restart ends it"
            : "see what its handler awaits, and give it a deadline; one that is to wait can be a stream, or `mayLast`"
    }

    /// Why nobody takes messages.
    private var lack: String {
        if !hasHandler, !loops.isEmpty || queue != nil { return "the port has no handler" }
        if let loop = loops.first { return "\(loop)" }
        return received == 0
            ? "no loop, queue, task or thread serves the port"
            : "who has taken \(received) before does not ask for more: a task or thread that is busy, or has ended"
    }

    /// Why nothing was taken.
    private var block: String {
        if isFull, let handlers {
            let oldest =
                oldestRequest.map { "; the oldest request in progress: \($0)" } ?? oneWay.map { "; \($0)" } ?? ""
            return "\(handlers.fullText)\(most)\(oldest)\(awaits)"
        }
        let taker =
            loops.first { $0.serves && $0.busyFor != nil }?.description ?? takers.first ?? "a thread handles a message"
        return taker + awaits
    }

    /// The process that has asked most of the requests in progress.
    private var most: String {
        let asked = senders.reduce(0) { $0 &+ $1.requests }
        guard let asker = senders.max(by: { $0.requests < $1.requests }), asker.requests > 1 else { return "" }
        return "; \(asker)\(asker.hasEnded ? "," : "") has asked \(asker.requests) of the \(asked) requests in progress"
    }

    /// What the owner waits for.
    private var awaits: String {
        if awaited.isEmpty { return "" }
        let (shown, rest) = (awaited.prefix(3).map(\.description), awaited.count - 3)
        return "; its process waits for \(shown.joined(separator: ", "))" + (rest > 0 ? " and \(rest) more" : "")
    }
}

private func shown(_ duration: Duration) -> String { shown(seconds: duration / .seconds(1)) }
private func shown(seconds: Double) -> String {
    let parts = seconds < 10 ? 100.0 : 10
    return "\((seconds * parts).rounded() / parts) s"
}
