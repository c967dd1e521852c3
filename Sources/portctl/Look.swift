import Ports
import RunLoops

/// A name, and what its owner says.
struct Look: Sendable {
    let registration: PortNameServer.Registration
    /// When the owner has answered, or its time was over.
    var time = MonotonicInstant.now
    /// Nil when the owner does not answer.
    var service: PortService?
    var statistics: PortStatistics? { service?.statistics }
    /// Whether the owner has not answered in time.
    private(set) var isSilent = false
    /// What portctl itself has none of, such as descriptors.
    private(set) var ownFailure: PortError?
    /// Whether the owner answers as many others as it takes.
    private var isBusy = false

    /// Looks at all names at the same time, so that an owner that does not answer keeps nothing else from being shown.
    /// - Parameter needsAnswers: False for a command that has something to show without them: then the looks say what is
    ///   lacking.
    /// - Throws: `PortError`, when this process lacks what it needs to ask any of them.
    static func all(
        _ registrations: [PortNameServer.Registration], observing duration: Duration = .milliseconds(200),
        timeout: Duration = .seconds(2), needsAnswers: Bool = true
    ) throws -> [Look] {
        let looks = try awaited {
            await PortNameServer.shared.askOwners(of: registrations) { registration, isSilent in
                let deadline = isSilent ? nil : ContinuousClock.now + duration + timeout
                let look = await Look(registration, observing: duration, before: deadline)
                return (look, look.isSilent)
            }
        }
        // Nothing is known of the owners then.
        if needsAnswers, let failure = looks.first?.ownFailure, looks.allSatisfy({ $0.ownFailure != nil }) {
            throw failure
        }
        return looks.sorted { $0.registration.name < $1.registration.name }
    }

    /// - Parameter deadline: Nil for an owner that has not answered before, and is not asked.
    private init(
        _ registration: PortNameServer.Registration, observing duration: Duration,
        before deadline: ContinuousClock.Instant?
    ) async {
        self.registration = registration
        guard let latest = deadline else {
            isSilent = true
            return
        }
        // A stopped process is not waited for, but it may go on.
        let deadline = isStopped ? min(latest, .now + .milliseconds(300)) : latest
        do {
            let right = try await PortNameServer.shared.port(forName: registration.name, before: deadline)
            service = try await right.service(observing: duration, before: deadline)
        } catch PortError.busy {
            isBusy = true
        } catch PortError.receiveTimedOut, PortError.cannotConnect {
            isSilent = true
        } catch let error as PortError {
            switch error {
            case .outOfDescriptors, .outOfSockets, .runLoop, .transport, .directory: ownFailure = error
            default: break
            }
        } catch {}
        time = .now
    }

    /// What is wrong with a port, and from whom the messages come that wait.
    static func trouble(of name: String) async -> String? {
        guard let found = try? PortNameServer.shared.registration(forName: name) else { return nil }
        let look = await Look(found, observing: .milliseconds(300), before: .now + .seconds(2))
        guard let trouble = look.trouble?.text else { return nil }
        // The text of a flood names the sender.
        guard let service = look.service, [.stuck, .unserved].contains(service.condition), service.waiting > 0,
            let sender = service.busiestSender
        else { return trouble }
        return trouble + "; most of the messages come from \(sender.program ?? "?") (pid \(sender.pid))"
    }

    /// The condition in a word.
    var state: String {
        service?.condition.rawValue ?? (isStopped ? "stopped" : "?")
    }

    /// The oldest message in a handler.
    var handling: String? {
        func text(
            _ name: String?, _ id: UInt32, _ program: String?, _ pid: Int32, _ age: Duration, isOlder: Bool = false
        ) -> String {
            let sender = program.map { "\($0) (pid \(pid))" } ?? (pid > 0 ? "process \(pid)" : "an unknown sender")
            return "\(name ?? "id \(id)") of \(sender), \(isOlder ? "at least " : "")\(readable(age))"
        }
        if let message = service?.handling.first {
            return text(
                message.name, message.id, message.program, message.pid, message.age, isOlder: message.isOlder)
        }
        return service?.requests.first { !$0.mayLast }.map { text($0.name, $0.id, $0.program, $0.pid, $0.age) }
    }

    /// Troubles come first.
    var rank: Int { trouble == nil ? 2 : isServed ? 1 : 0 }

    /// Whether messages are taken, perhaps too slowly, as far as the owner says.
    var isServed: Bool { service.map { $0.condition != .stuck && $0.condition != .unserved } ?? isBusy }

    private var isStopped: Bool { ProcessStatus.isStopped(registration.pid) }

    /// What is wrong, and what to do.
    var trouble: (text: String, remedy: String?)? {
        guard let service else {
            if let ownFailure { return ("portctl cannot ask its owner: \(ownFailure)", nil) }
            let pid = registration.pid
            let owner = registration.port.program.map { "\($0) (pid \(pid))" } ?? "process \(pid)"
            if isBusy { return ("\(owner), its owner, answers as many others as it takes", "look again soon") }
            return isStopped
                ? (
                    "\(owner), its owner, is stopped",
                    "kill -CONT \(pid) continues it, unless a debugger has stopped it"
                )
                : ("\(owner), its owner, does not answer", nil)
        }
        guard let text = service.trouble, service.condition != .unserved || service.waiting > 0 else { return nil }
        return (text, service.remedy)
    }

    var json: JSON {
        .object(
            registration.members + [
                ("waiting", .integer(statistics?.waiting)), ("received", .integer(statistics?.received)),
                ("state", .string(state)), ("trouble", .string(trouble?.text)),
                ("service", service?.json ?? .string(nil)),
            ])
    }
}

extension PortService {
    var json: JSON {
        .object([
            ("handler", .bool(hasHandler)), ("loops", .array(loops.map(\.json))),
            (
                "queue",
                queue.map { .object([("label", .string($0.label)), ("busy", .bool($0.isBusy))]) } ?? .string(nil)
            ),
            ("waitingThreads", .integer(waitingThreads)), ("waitingTasks", .integer(waitingTasks)),
            ("iteratingTasks", .integer(iteratingTasks)), ("receiverAway", .bool(isReceiverAway)),
            ("descriptors", .integer(descriptors)), ("handlingThreads", .integer(handlingThreads)),
            ("observedMilliseconds", .number(milliseconds(observed))), ("handled", .integer(handled)),
            (
                "senders",
                .array(
                    senders.map {
                        .object([
                            ("pid", .integer(Int($0.pid))), ("program", .string($0.program)),
                            ("sent", .integer($0.sent)),
                            ("recently", .integer($0.recently)), ("taken", .integer($0.taken)),
                            ("sinceEmpty", .integer($0.sinceEmpty)), ("ended", .bool($0.hasEnded)),
                            ("requests", .integer($0.requests)),
                        ])
                    })
            ),
            (
                "handlers",
                handlers.map { .object([("count", .integer($0.count)), ("limit", .integer($0.limit))]) }
                    ?? .string(nil)
            ),
            ("requestCount", .integer(requestCount)), ("lastingCount", .integer(lastingCount)),
            (
                "requests",
                .array(
                    requests.map {
                        .object([
                            ("id", .integer(Int($0.id))), ("type", .string($0.name)), ("pid", .integer(Int($0.pid))),
                            ("program", .string($0.program)), ("milliseconds", .number(milliseconds($0.age))),
                            ("mayLast", .bool($0.mayLast)), ("replying", .bool($0.isReplying)),
                            ("cancelled", .bool($0.isCancelled)),
                        ])
                    })
            ),
            (
                "handling",
                .array(
                    handling.map {
                        .object([
                            ("id", .integer(Int($0.id))), ("type", .string($0.name)), ("request", .bool($0.isRequest)),
                            ("pid", .integer(Int($0.pid))), ("program", .string($0.program)),
                            ("milliseconds", .number(milliseconds($0.age))), ("older", .bool($0.isOlder)),
                        ])
                    })
            ),
            (
                "awaited",
                .array(
                    awaited.map {
                        .object([
                            ("port", .string($0.port)), ("title", .string($0.title)), ("replies", .integer($0.replies)),
                            ("senders", .integer($0.senders)),
                        ])
                    })
            ),
        ])
    }
}

extension PortService.Loop {
    fileprivate var json: JSON {
        .object([
            ("thread", .integer(thread)), ("name", .string(threadName)), ("modes", .array(modes.map { .string($0) })),
            ("running", .array(running.map { .string($0) })), ("serves", .bool(serves)), ("waits", .bool(isWaiting)),
            ("callout", .string(callout)), ("busyMilliseconds", .number(busyFor.map(milliseconds))),
            ("busyForLonger", .bool(isBusyForLonger)),
            ("computing", .bool(isComputing)),
        ])
    }
}
