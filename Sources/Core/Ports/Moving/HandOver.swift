import Glibc
import RunLoops

/// The loan of a port, as the move to the borrower uses it.
protocol PortLoan: AnyObject, Sendable {
    var terms: LoanTerms? { get throws(PortError) }
    /// The port is about to move to the borrower.
    func begin(in directory: RegistryDirectory) throws(PortError)
    /// The port has not moved.
    func stayed(in directory: RegistryDirectory)
    /// The port is the borrower's.
    func lend(_ messages: [LocalMessage], _ names: [RegisteredName], at home: PortID)
    /// The port is not being handed over.
    func takeIfWanted()
    /// The port is here for good.
    func stays()
}

/// The owner's part of a port's move to another process, on a thread of its own.
///
/// All senders are told to wait, and report when the port has everything that they have sent. Then the port's messages go to
/// the next owner, which takes the port in the registry. Only then does the port end here. Until then, any error lets it go
/// on here, with the messages in their order.
///
/// A port that this process has borrowed itself leaves in its rings what is there, and counts nothing as taken, so that its
/// lender gets all back should this process end in the meantime.
struct HandOver: ~Copyable {
    private let port: MachPort
    private let claimant: MachPort.SendRight
    /// The loan of a port that is lent to the claimant; nil for a port that goes for good.
    private let loan: (any PortLoan)?
    private let deadline = MonotonicInstant.now + .seconds(10)

    init(_ port: MachPort, to claimant: MachPort.SendRight, _ loan: (any PortLoan)?) {
        (self.port, self.claimant, self.loan) = (port, claimant, loan)
    }

    private var receiver: Receiver { port.receiver }
    private var number: UInt64 { receiver.id.number }
    private var finishing: FinishingPorts { port.runtime.finishing }

    func run() {
        do throws(PortError) {
            let answers = try MachPort(
                queueLimit: 16, messageLimit: 64 << 10,
                nameServer: PortNameServer(directory: receiver.exposure.directoryPath, runtime: port.runtime))
            let terms = try terms()?.components ?? []
            try send(.init(.begin, [.port(port.sendRight)] + terms, replyPort: answers.sendRight))
            guard let number = try next(answers, .ready).numbers.first else {
                throw .cannotMove(reason: "the process that claims \(port.identity) is of another kind")
            }
            let home = PortID(incarnation: claimant.channel.id.incarnation, number: number)
            try move(to: home, answers)
        } catch {
            log.debug("\(port.identity) has not moved: \(error)")
            // The deadline may be over.
            MachPort.Message(failed: error).post(to: claimant)
        }
    }

    private func send(_ message: MachPort.Message) throws(PortError) {
        try claimant.send(message, until: deadline)
    }

    /// Sends a part of the port, which may be many, to a claimant that may be stopped.
    private func send(part: MachPort.Message) throws(PortError) {
        while true {
            do throws(PortError) {
                return try claimant.send(part, until: min(deadline, .now + .milliseconds(500)))
            } catch .sendTimedOut where !deadline.hasPassed {
                guard port.isValid else { throw .isInvalid(port: port.identity) }
            }
        }
    }

    /// Whether the claimant says that it has taken the port. Its answer may come after the end of its own port, which goes
    /// another way, or late, if this process was stopped until now. A claimant that has ended does not answer.
    private func saysTaken(_ answers: MachPort) -> Bool {
        var patience = Patience(.seconds(10), from: MonotonicInstant.now)
        while true {
            do throws(PortError) {
                return Message(try answers.receiver.receive(before: patience.nextLook)).step == .taken
            } catch .receiveTimedOut where !patience.isOver(at: .now) {
            } catch {
                return false
            }
        }
    }

    /// The claimant's next answer.
    private func next(_ answers: MachPort, _ step: MovingStep) throws(PortError) -> MachPort.Message {
        while true {
            // Asked before the look: what came before the end is taken.
            let hasEnded = !claimant.channel.isValid
            do throws(PortError) {
                let message = Message(try answers.receiver.receive(before: min(deadline, .now + .milliseconds(50))))
                if message.step == step { return message }
                throw .cannotMove(reason: message.text(ofComponent: 0) ?? "the process that claims it has refused it")
            } catch .receiveTimedOut where !deadline.hasPassed {
                guard port.isValid else { throw .isInvalid(port: port.identity) }
                if hasEnded { throw .becameInvalid(port: claimant.identity) }
            }
        }
    }

    /// Nil for a port that is not lent. An owner that has borrowed the port passes its lender on.
    private func terms() throws(PortError) -> LoanTerms? {
        if let loan { return try loan.terms }
        return (receiver.arrival?.lender as? PortBorrowing).map { LoanTerms($0) }
    }

    private typealias Message = MachPort.Message

    private func move(to home: PortID, _ answers: MachPort) throws(PortError) {
        // The end of a port that is invalidated meanwhile has to wait: it would refuse what has been handed over.
        try receiver.intake.beginTurn()
        defer { receiver.intake.endTurn() }
        let (channel, id) = (receiver.channel, receiver.publicID)
        let directory = try receiver.exposure.directoryOfSocket()
        try loan?.begin(in: directory)
        do throws(PortError) {
            try directory.beginMove(of: id, to: home)
        } catch {
            loan?.stayed(in: directory)
            throw error
        }
        receiver.intake.pause()
        channel.waitForOwnMove()
        receiver.exposure.hide()
        var waiting = Waiting(isLent: receiver.arrival?.lender != nil)
        // Before, the claimant cannot take the port.
        var isHandedOver = false
        do throws(PortError) {
            try gather(&waiting)
            try hand(over: waiting.all)
            isHandedOver = true
            _ = try next(answers, .taken)
        } catch {
            let isTaken =
                switch directory.endMove(of: id, at: receiver.id, to: home) {
                case .kept: false
                case .taken: true
                case .unknown: isHandedOver && saysTaken(answers)
                }
            guard isTaken else {
                loan?.stayed(in: directory)
                stay(waiting)
                throw error
            }
        }
        leave(to: home, in: directory.path, waiting.all)
    }

    /// The messages that wait at the port.
    private struct Waiting {
        /// Whether this process has borrowed the port.
        let isLent: Bool
        var taken: [LocalMessage] = []
        /// Copies of messages that are in rings still; nil before they are made.
        var copies: [LocalMessage]?

        var all: [LocalMessage] { taken + (copies ?? []) }
    }

    // MARK: Gathering

    /// Takes what waits, and all that the senders have sent before they wait.
    private func gather(_ waiting: inout Waiting) throws(PortError) {
        // A sender that has connected before the socket was hidden has watched the port before.
        let isRead = Promise<Void>()
        let control = port.runtime.control
        try port.runtime.housekeeping.perform {
            control.receiveAll()
            isRead.set(())
        }
        finishing.begin(number, nil)
        if isRead.wait(until: deadline) == nil { throw .cannotMove(reason: "the library's own thread is busy") }
        var patience = Patience(Self.newcomersTime, from: MonotonicInstant.now)
        while true {
            if patience.isOver(at: .now) {
                finishing.awaitNoOthers(number)
                finishing.giveUp(number) { sendsByZeroMQ($0) == nil }
            }
            try take(&waiting)
            // A sender that has come since makes another promise.
            guard let areDone = finishing.areDone(number) else { throw .isInvalid(port: port.identity) }
            if areDone.wait(until: .now + .milliseconds(2)) != nil, finishing.areDone(number)?.value != nil { break }
            if deadline.hasPassed { throw .cannotMove(reason: "some of its senders do not answer") }
        }
        try awaitSilentSenders(&waiting)
        receiver.intake.stopRings()
        // A ring that is left here with records would take turns with its sender's next ring, out of order.
        let end = max(deadline, .now + Self.patience)
        var (copies, pause) = (receiver.intake.beginCopy(), UInt32(500))
        repeat {
            waiting.taken += receiver.intake.takeAll(isLent: waiting.isLent, until: end)
            if waiting.isLent {
                if receiver.intake.goOn(with: &copies) { return waiting.copies = copies.messages }
            } else if !receiver.intake.hasUntakenInRings {
                return
            }
            guard port.isValid else { throw .isInvalid(port: port.identity) }
            usleep(pause)
            pause = min(2 * pause, 20_000)
        } while !end.hasPassed
        throw .cannotMove(reason: "there is no memory for its messages")
    }

    /// Takes what waits, for a short time: a hostile sender may send without end.
    private func take(_ waiting: inout Waiting) throws(PortError) {
        let end = min(deadline, .now + .milliseconds(100))
        let more = receiver.intake.takeAll(isLent: waiting.isLent, until: end)
        waiting.taken += more
        if !more.isEmpty { try MovedMessages.check(waiting.taken) }
        guard port.isValid else { throw .isInvalid(port: port.identity) }
        // The senders would wait for nobody.
        guard claimant.channel.isValid else { throw .becameInvalid(port: claimant.identity) }
    }

    /// The time in which a sender watches the port that has connected to it before: the connection by which it says so may
    /// have been cut. Also the time in which senders answer whose messages are safe without their answer.
    private static let newcomersTime = Duration.seconds(3)

    /// The time of a process that does not answer, and that has no ring.
    private static let patience = Duration.seconds(2)

    /// A ring is ended for both sides at once, whether or not its sender answers. A process that does not answer, and has no
    /// ring, may send by ZeroMQ.
    private func awaitSilentSenders(_ waiting: inout Waiting) throws(PortError) {
        let limit = min(deadline, .now + Self.patience)
        while true {
            let ringless = receiver.ringless.withLock { $0 }
            let silent = finishing.givenUp(number).subtracting(receiver.ringPeers.subtracting(ringless))
            if silent.isEmpty { return }
            if limit.hasPassed {
                guard let one = silent.compactMap({ sendsByZeroMQ($0) }).first else { return }
                throw .cannotMove(reason: "\(one.owner), which sends to it, does not answer")
            }
            usleep(2000)
            try take(&waiting)
        }
    }

    /// The connection of a process that may send to the port by ZeroMQ. A process that can map rings says so before; one that
    /// has not only watches the port, or has a ring.
    private func sendsByZeroMQ(_ sender: Incarnation) -> ControlConnection? {
        let control = port.runtime.control
        guard let connection = control.existing(sender) else { return nil }
        let canMapRings = connection.takesRings && control.takesRings
        return canMapRings && !receiver.ringless.withLock({ $0.contains(sender) }) ? nil : connection
    }

    private func hand(over messages: [LocalMessage]) throws(PortError) {
        let own = SenderCredentials(pid: getpid(), uid: geteuid(), gid: getegid())
        for message in messages { try send(part: try Message(waiting: message, own: own)) }
        let names =
            receiver.exposure.registeredNames.map { held in
                MovedContents.Name(path: held.directory.path, name: held.name, isService: held.isService)
            }
            + port.runtime.registry.awaitedNames(of: receiver.id).map { awaited in
                MovedContents.Name(path: awaited.path, name: awaited.name, isService: awaited.isService)
            }
        guard port.isValid else { throw .isInvalid(port: port.identity) }
        let moved = MovedContents(messageCount: UInt64(messages.count), names: names)
        try send(part: Message(.complete, moved.components))
    }

    // MARK: The end

    /// The port goes on here.
    private func stay(_ waiting: Waiting) {
        finishing.remove(number)
        if waiting.isLent, waiting.copies == nil {
            // The senders ask for further rings, and for further ways of descriptors.
            receiver.intake.stopRings()
            receiver.intake.findDescriptorsOfRings()
        }
        receiver.intake.takeAgain(with: waiting.taken)
        // Its end, which waits for this turn, leaves the messages to its lender, or refuses them.
        guard port.isValid else { return }
        receiver.exposure.show()
        receiver.channel.stayHere()
        for sender in port.runtime.control.allWatchers(of: number) { sender.send(.stayed(number)) }
    }

    /// The port is the claimant's.
    private func leave(to home: PortID, in directory: String, _ messages: [LocalMessage]) {
        // Before the channel tells the end of the claimant.
        let registry = port.runtime.registry
        let awaited = registry.awaitedNames(of: receiver.id).compactMap { name in
            (try? registry.directory(name.path)).map { directory in
                RegisteredName(directory: directory, name: name.name, isService: name.isService)
            }
        }
        loan?.lend(messages, receiver.exposure.registeredNames + awaited, at: home)
        receiver.intake.forgetLent()
        port.runtime.channels.move(receiver.channel, to: home, in: directory)
        registry.giveUpAwaiting(namesOf: receiver.id)
        receiver.leave()
        receiver.exposure.abandonNamesWhenTaken()
        finishing.remove(number)
        messages.tellMoved(from: number)
        log.debug("\(port.identity) has moved with \(messages.count) messages")
    }
}
