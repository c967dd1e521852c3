import Ports

extension PortInfo.Loop: CustomStringConvertible {
    /// The thread, the modes, and the loop's activity.
    public var description: String {
        let modeText = (modes.count == 1 ? "mode " : "modes ") + modes.joined(separator: ", ")
        let thread = "the loop of thread \(thread) “\(threadName)”, in \(modeText)"
        guard let mode = running.last else { return "\(thread): it does not run" }
        let place = serves ? "it runs in mode \(mode)" : "it runs in another mode, \(mode)"
        guard let busyFor else { return "\(thread): \(place)" + (isWaiting ? ", and waits for work" : "") }
        let state = isComputing ? "computing" : "waiting in the kernel"
        let time = (isBusyForLonger ? "at least " : "") + shown(busyFor)
        return "\(thread): \(place), and has been busy for \(time), now in \(callout ?? "its own work"), \(state)"
    }
}

extension PortInfo.Sender: CustomStringConvertible {
    /// The program without its folders, the process id, and whether the process has ended.
    public var description: String {
        ProcessIdentity(pid: pid, path: program).description + (hasEnded ? ", which has ended" : "")
    }
}

extension PortInfo.Handled: CustomStringConvertible {
    /// The message by the name of its type, else by its id, its sender, and the time since it was taken.
    public var description: String {
        let time =
            age < .milliseconds(5) && !isOlder ? "since just now" : "for \(isOlder ? "at least " : "")\(shown(age))"
        return "\(subject), in its handler \(time)"
    }

    /// The message and its sender.
    var subject: String {
        let message = name?.printable ?? "a \(isRequest ? "request" : "message") of id \(id)"
        let isKnown = pid != 0 || program != nil
        return message + (isKnown ? " of \(ProcessIdentity(pid: pid, program: program))" : "")
    }
}

extension PortInfo.Request: CustomStringConvertible {
    /// The request by the name of its type, else by its id, its asker, and the time since it was taken.
    public var description: String {
        let subject = name?.printable ?? "a request of id \(id)"
        let asker = origin?.printable ?? "\(ProcessIdentity(pid: pid, program: program))"
        let outcome =
            isCancelled ? ", not waited for any more" : isReplying ? ", whose reply waits for room at the asker" : ""
        return "\(subject) of \(asker), taken \(shown(age)) ago" + outcome
    }
}

extension PortInfo.Awaited: CustomStringConvertible {
    /// The port, and what is waited for.
    public var description: String {
        let wishes = [(replies, "repl", "y", "ies"), (senders, "sender", "", "s")].filter { $0.0 > 0 }.map {
            "\($0.0) \($0.1)\($0.0 == 1 ? $0.2 : $0.3)"
        }
        return "\(title) (\(wishes.joined(separator: ", ")))"
    }
}

extension PortInfo {
    /// The loops, queues, tasks and threads that serve the port, each in a sentence; empty for none.
    public var takerTexts: [String] {
        var texts = takers.loops.map(\.description)
        if let queue = takers.queue {
            texts.append("the dispatch queue “\(queue.label)”" + (queue.isBusy ? ", which is busy" : ""))
        }
        let (waiting, busy) = (max(0, takers.waitingTasks - takers.servingTasks), takers.busyTasks)
        let others = [
            (takers.waitingThreads, "a thread that waits for a message", "threads that wait for a message"),
            (waiting, "a task that waits for a message", "tasks that wait for a message"),
            (busy, "a task that handles a message in `for await`", "tasks that handle messages in `for await`"),
            (takers.descriptors, "a loop of another kind, by a descriptor", "loops of other kinds, by descriptors"),
        ]
        texts += others.filter { $0.0 > 0 }.map { $0.0 == 1 ? $0.1 : "\($0.0) \($0.2)" }
        if let handlers = takers.handlers {
            let limit = handlers.limit < BoundedCoding.mostCount ? ", at most \(handlers.limit) at a time" : ""
            texts.append("tasks, \(handlers.count) at work\(limit)")
        }
        if takers.isReceiverAway {
            texts.append(
                "a thread or task that has taken a message with `receive(before:)`: it handles that, or has ended")
        }
        return texts
    }
}

func shown(_ duration: Duration) -> String { shown(seconds: duration / .seconds(1)) }
func shown(seconds: Double) -> String {
    let parts = seconds < 10 ? 100.0 : 10
    return "\((seconds * parts).rounded() / parts) s"
}
