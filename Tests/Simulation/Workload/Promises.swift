@testable import Ports

/// Compares the library's promises with what the programs of a machine see. Each check is a sentence of Promises.md.
final class Promises {
    /// The messages of one thread to one port.
    final class Line {
        let number: UInt32
        let sender: Process
        let port: PortID
        let flow: Flow
        var begun: UInt32 = 0
        var isInCall = false
        var accepted: [UInt32: SentMessage] = [:]
        var received: UInt32 = 0
        /// The messages that former owners of the port took, and have not looked at yet, and those owners.
        var inHand: [UInt32: [Process]] = [:]
        var descriptors: [UInt32: SentDescriptor] = [:]
        /// Whether the sender was told that messages were lost.
        var isLossTold = false
        /// The port's ways back to its lender.
        var returns: [LoanReturn] = []
        /// The last message that a borrower of the port may have passed on to another one.
        var passedOn: UInt32 = 0

        /// The accepted messages in a range that have to come.
        func due(_ range: ClosedRange<UInt32>) -> [UInt32] {
            range.filter { number in
                guard let message = accepted[number] else { return false }
                return !returns.contains { $0.mayLose(number, message, of: sender) }
            }
        }

        /// The first message that has not come, and has to.
        var next: UInt32? {
            guard received < begun else { return nil }
            return due(received + 1...begun).first ?? (isInCall ? begun : nil)
        }

        init(_ number: UInt32, _ sender: Process, _ port: PortID, _ flow: Flow) {
            (self.number, self.sender, self.port, self.flow) = (number, sender, port, flow)
        }
    }

    /// The messages of one process to one port.
    final class Flow {
        /// The messages that have a place in the ring, as far as the programs know, and their bytes.
        var (waiting, bytes) = (0, 0)
    }

    final class PortFacts {
        /// The process that has made the port, or that has claimed it last.
        fileprivate(set) var owner: Process
        /// The port as the owner knows it. The owner may have former ones, from which the port has gone.
        fileprivate(set) var home: PortID
        let queueLimit: Int
        let byteLimit: Int?
        fileprivate(set) var isValid: () -> Bool
        fileprivate(set) var moves = PortMoves()
        /// The process that gets the port back; nil for a port that is not lent.
        fileprivate(set) var lender: Process?
        fileprivate var loanCount = 0
        /// The process that has lent it last, and when that began to wait for it no more.
        fileprivate(set) var formerLender: (process: Process, since: UInt64)?
        /// All processes that have had it.
        fileprivate(set) var holders: [Process]
        /// Whether a borrower has given it to another process.
        fileprivate(set) var hasPassedOn = false
        /// When it came back from a borrower last.
        fileprivate var returnTime: UInt64?
        /// When the present owner began to claim it.
        fileprivate var since = machine.now
        /// For each borrower that has died, the message of each line that it may have had in hand, and that may be lost.
        fileprivate var lostInHand: [[UInt32: UInt32]] = []
        /// The messages of programs that were taken from the port.
        var taken = 0
        /// Whether an owner has refused further requests.
        fileprivate var isFinishing = false
        /// Whether the owner has begun to end the port.
        var isEnding = false
        /// The processes in a call that ends the port where they have it, or had it when the call began.
        fileprivate var enders: [Process] = []
        /// When the owner's call that ends the port has returned.
        var endTime: UInt64?

        init(
            _ owner: Process, at home: PortID, _ queueLimit: Int, _ byteLimit: Int?, _ isValid: @escaping () -> Bool
        ) {
            (self.owner, self.home, self.queueLimit, self.byteLimit, self.isValid) =
                (owner, home, queueLimit, byteLimit, isValid)
            holders = [owner]
        }

        /// Whether the current process has the port here.
        func isPresent(at home: PortID) -> Bool { owner === machine.current.process && self.home == home }

        /// Whether a message that was overtaken may be in the hand of a former owner.
        fileprivate func isInHand(_ number: UInt32, of line: Line) -> Bool {
            if let place = lostInHand.firstIndex(where: { $0[line.number] == number }) {
                lostInHand.remove(at: place)
            } else if !moves.inHand.isEmpty {
                line.inHand[number] = moves.inHand
                moves.inHand.removeLast()
            } else {
                return false
            }
            return true
        }

        func wasOver(at time: UInt64) -> Bool { [endTime, owner.endTime].contains { $0.map { $0 < time } ?? false } }
        /// Whether a living process waits for the port.
        var isLent: Bool { lender?.isDead == false }
        /// Whether the port lives, and nobody is claiming it.
        var isAlive: Bool { !owner.isDead && !owner.isExiting && !isEnding && isValid() && !moves.isUncertain }
    }

    private var lines: [Line] = []
    private var flows: [String: Flow] = [:]
    private(set) var ports: [PortID: PortFacts] = [:]
    private(set) lazy var names = NamePromises(self)
    let requests = RequestPromises()
    let pools = PoolPromises()
    let services = ServicePromises()
    let sessions = SessionPromises()
    private struct Watch {
        let watcher = machine.current.process
        let port: PortID
        var isTold = false
        /// Whether the watcher had a connection to the owner when the directory was lost.
        var wasConnected = false
    }

    private var watches: [Watch] = []
    private var noted = Counts()

    var counts: Counts {
        var counts = noted
        (counts.requests, counts.replies, counts.names) = (requests.count, requests.replyCount, names.count)
        return counts
    }

    struct Counts: CustomStringConvertible {
        var sent = 0
        var received = 0
        var requests = 0
        var replies = 0
        var names = 0
        var deaths = 0
        var streams = 0
        var restarts = 0
        var moves = 0
        var returns = 0

        var description: String {
            "\(sent) messages sent and \(received) received, \(requests) requests and \(replies) replies, "
                + "\(streams) streams, \(names) names taken, \(deaths) ends told, \(restarts) restarts, \(moves) moves, "
                + "\(returns) returns"
        }
    }

    /// Whether the port lives, as far as the programs know, at a process or with its lender.
    /// Where somebody has removed the directory, nobody may find the new home of a port that has moved.
    func isAlive(_ port: PortID) -> Bool {
        ports[port].map { $0.isAlive && !$0.isLent && ($0.moves.isNone || !isDirectoryLost) } ?? false
    }

    /// Whether the port is lent, and comes back, whatever its borrower does. “When the supervisor ends […], nothing changes for
    /// the service, and the port ends with it.”
    func isLent(_ port: PortID) -> Bool {
        guard let facts = ports[port], let lender = facts.lender, !isDirectoryLost else { return false }
        return !lender.isEnding && facts.owner !== lender && !facts.moves.isUncertain
    }

    /// Whether a lent port comes back with all requests of the current process that nobody has taken. “Not all comes back:
    /// messages by ZeroMQ, […] messages of the service's own process”, and what a service has passed on. “A service that
    /// finishes the port […] refuses the requests that wait.”
    func comesBackWhole(_ port: PortID) -> Bool {
        guard isLent(port), let facts = ports[port], !facts.hasPassedOn, !facts.isFinishing,
            machine.faults.refusedMemory == 0
        else {
            return false
        }
        let asker = machine.current.process
        return !facts.holders.contains { $0 === asker && $0 !== facts.lender }
            && (facts.holders + [asker]).allSatisfy { $0.failedCalls == 0 && makesRings($0) }
    }

    /// Whether a process gets a ring where it wants one.
    private func makesRings(_ process: Process) -> Bool {
        !ringless.contains(ObjectIdentifier(process)) && process.memoryLimit == .max && process.fileLimit == .max
    }

    /// The processes that make no rings.
    private var ringless: Set<ObjectIdentifier> = []
    func makesNoRings(_ process: Process) { ringless.insert(ObjectIdentifier(process)) }

    /// Whether the current process has begun to end the port. Another may have the port by now. “Its own process cannot send
    /// there, […] and neither finds the name nor sees it in a watch.”
    func isBeingEndedHere(_ port: PortID) -> Bool {
        guard let facts = ports[port] else { return false }
        let process = machine.current.process
        return facts.isEnding && facts.owner === process || facts.enders.contains { $0 === process }
    }

    /// Whether a process may have taken messages of the port and have died, or may have got them from a borrower.
    func mayHaveLost(_ port: PortID, since time: UInt64) -> Bool {
        guard let facts = ports[port] else { return true }
        // “Not all comes back: messages by ZeroMQ, […] messages of the service's own process.”
        let isReturned = facts.isLent && facts.isEnding || facts.returnTime.map { $0 >= time } ?? false
        return facts.moves.hasDeadClaimant || facts.hasPassedOn || isReturned
            || facts.holders.contains { holder in holder.isDead && holder.endTime.map { $0 >= time } ?? true }
    }

    func noteRestart() { noted.restarts += 1 }
    /// A program has claimed a port of its own, which it keeps.
    func claimedOwn() { ownClaims += 1 }
    private var ownClaims = 0
    /// The claims that have succeeded.
    var claimCount: Int { counts.moves + ownClaims }
    func noteStream() { noted.streams += 1 }

    // MARK: Ports

    func made(
        _ port: PortID, by owner: Process, queueLimit: Int, byteLimit: Int? = nil, isServer: Bool = false,
        isValid: @escaping () -> Bool
    ) {
        if isServer { servers.insert(port) }
        machine.story.tell(machine) { "makes port \(port.number)" }
        ports[port] = PortFacts(owner, at: port, queueLimit, byteLimit, isValid)
    }

    /// The messages of programs that were taken from a port that nobody has claimed.
    func takenCount(at port: PortID) -> Int? { ports[port].flatMap { $0.moves.isNone ? $0.taken : nil } }

    /// The messages of programs that were sent to a port, or are being sent; nil for a port of requests.
    func begunCount(at port: PortID) -> Int? {
        let found = lines.filter { $0.port == port }
        return found.isEmpty ? nil : found.reduce(handedOver[port, default: 0]) { $0 + Int($1.begun) }
    }

    /// The messages with nothing but a server's right to receive, which belong to no line.
    private var handedOver: [PortID: Int] = [:]
    /// - Parameter offer: The offer of the server. The end of a loan may take it, and the hand-over then makes another one.
    func handsOver(by offer: PortID, to port: PortID) {
        handedOver[port, default: 0] += 1
        lastHandOvers[offer.incarnation] = offers[offer]
    }
    private var lastHandOvers: [Incarnation: PortID] = [:]

    /// - Parameter home: The port as its present process knows it.
    func ends(_ port: PortID, at home: PortID) {
        machine.story.tell(machine) { "ends port \(port.number)" }
        guard let facts = ports[port] else { return }
        facts.enders.append(machine.current.process)
        if facts.isPresent(at: home) { facts.isEnding = true }
    }

    /// An owner ends the port after the requests that it has taken.
    func finishes(_ port: PortID) { ports[port]?.isFinishing = true }

    /// The call that ends the port has returned.
    /// - Parameters:
    ///   - home: The port as its present process knows it.
    ///   - isWhole: Whether the call has waited for all handlers.
    func ended(_ port: PortID, at home: PortID, isWhole: Bool = true) {
        if let facts = ports[port] {
            if facts.isPresent(at: home) { facts.endTime = machine.now }
            if let place = facts.enders.firstIndex(where: { $0 === machine.current.process }) {
                facts.enders.remove(at: place)
            }
        }
        if isWhole, !machine.current.process.isExiting,
            machine.files.exists("\(Scenario.directory)/\(home.incarnation)/\(home.number)")
        {
            machine.fail("the socket of an ended port of \(machine.current.process) is left")
        }
    }

    /// Somebody has removed all entries.
    func lostDirectory() {
        names.lostAll()
        // Nobody may find a port's new home any more.
        isDirectoryLost = true
        for index in watches.indices where !watches[index].isTold {
            let watch = watches[index]
            watches[index].wasConnected = ports[watch.port].map { watch.watcher.isConnected(to: $0.owner) } ?? false
        }
        (sessions.isDirectoryLost, pools.isDirectoryLost, services.isDirectoryLost) = (true, true, true)
    }

    private(set) var isDirectoryLost = false

    /// The owner of a port, for texts.
    func owner(_ port: PortID) -> String { ports[port].map { "\($0.owner)" } ?? "?" }

    // MARK: Deaths

    private var processes: [Incarnation: Process] = [:]

    /// The current process has begun to use the library.
    func begins(as incarnation: Incarnation) { processes[incarnation] = machine.current.process }

    func process(of incarnation: Incarnation) -> Process? { processes[incarnation] }

    func watching(_ port: PortID) -> Int {
        watches.append(Watch(port: port))
        return watches.count - 1
    }

    func isTold(_ watch: Int) {
        noted.deaths += 1
        machine.story.tell(machine) {
            "is told the end of port \(watches[watch].port.number) of \(owner(watches[watch].port))"
        }
        if watches[watch].isTold { machine.fail("\(watches[watch].watcher) was told the end of a port twice") }
        watches[watch].isTold = true
        let port = watches[watch].port
        // “Another folder of the user at that path is taken for the directory.” So a process that was never connected to the
        // owner takes it for dead.
        let mayFind = !isDirectoryLost || watches[watch].wasConnected && (ports[port]?.moves.isNone ?? true)
        if let facts = ports[port], facts.isAlive, mayFind {
            machine.fail("\(watches[watch].watcher) was told the end of a living port of \(facts.owner)")
        }
    }

    /// The processes that were not told the end of a port, and the port.
    var untold: [String] {
        watches.filter { watch in
            !watch.isTold && !watch.watcher.isDead
                && ports[watch.port].map {
                    !$0.isAlive && !$0.isLent && !$0.moves.isUncertain && ($0.owner.state == .gone || !$0.isValid())
                } == true
        }.map { "\($0.watcher) was not told the end of port \($0.port.number) of \(owner($0.port))" }
    }

    // MARK: Messages

    func makeLine(to port: PortID) -> Line {
        let sender = machine.current.process
        let key = "\(sender.name) \(port)"
        let flow = flows[key] ?? Flow()
        flows[key] = flow
        let line = Line(UInt32(lines.count), sender, port, flow)
        lines.append(line)
        return line
    }

    func begin(_ line: Line) -> UInt32 {
        line.begun += 1
        line.isInCall = true
        return line.begun
    }

    func accepted(_ number: UInt32, of line: Line, _ message: SentMessage) {
        let (isKept, size) = (message.isKept, message.size)
        line.isInCall = false
        line.accepted[number] = message
        machine.story.tell(machine) {
            "has sent message \(number) of line \(line.number) to \(owner(line.port))\(isKept ? ", which is kept" : "")"
        }
        noted.sent += 1
        guard isKept, number > line.received else { return }
        line.flow.waiting += 1
        line.flow.bytes += size
        // A port that has moved holds the messages that it has brought along, and those of its new senders.
        guard let port = ports[line.port], port.moves.isNone else { return }
        // The receiver has one more in hand.
        if line.flow.waiting > port.queueLimit + 1 {
            machine.fail("\(line.flow.waiting) messages of \(line.sender) wait at a port for \(port.queueLimit)")
        }
        if let limit = port.byteLimit, line.flow.bytes > 2 * limit {
            machine.fail("\(line.flow.bytes) bytes of \(line.sender) wait at a port for \(limit)")
        }
    }

    func failed(_ number: UInt32, of line: Line, isLoss: Bool) {
        line.isInCall = false
        machine.story.tell(machine) { "fails to send message \(number) of line \(line.number) to \(owner(line.port))" }
        if isLoss { line.isLossTold = true }
        if line.received == number || line.inHand[number] != nil {
            machine.fail("a message arrived although its send has failed")
        }
    }

    func received(_ lineNumber: UInt32, _ number: UInt32, at port: PortID, from pid: Int32?) {
        noted.received += 1
        guard Int(lineNumber) < lines.count else { machine.fail("a message came that nobody has sent") }
        let line = lines[Int(lineNumber)]
        if line.port != port { machine.fail("a message came to another port than it was sent to") }
        noteTaker(of: number, line)
        if line.inHand.removeValue(forKey: number) != nil {
            ports[port]?.taken += 1
            machine.story.tell(machine) { "takes message \(number) of line \(lineNumber), which it had in hand" }
            return
        }
        if number <= line.received { machine.fail("message \(number) of a line came after \(line.received)") }
        if let pid, pid != line.sender.pid { machine.fail("a message of \(line.sender) came as one of process \(pid)") }
        if line.accepted[number] == nil, number != line.begun || !line.isInCall {
            machine.fail("message \(number) came, whose send has failed")
        }
        let missed = line.received + 1 < number ? line.due(line.received + 1...number - 1) : []
        let lost = missed.filter { !isLostByCut($0, of: line) && ports[port]?.isInHand($0, of: line) != true }
        if !line.isLossTold, let lost = lost.first {
            machine.fail("message \(lost) of \(line.sender) was lost, and \(number) came")
        }
        for taken in line.received + 1...number {
            guard let message = line.accepted[taken], message.isKept else { continue }
            line.flow.waiting -= 1
            line.flow.bytes -= message.size
        }
        ports[port]?.taken += 1
        machine.story.tell(machine) { "takes message \(number) of line \(lineNumber)" }
        line.received = number
    }

    /// “Messages by ZeroMQ may be lost when the control connection between their sender and the owner ends during the move.”
    private func isLostByCut(_ number: UInt32, of line: Line) -> Bool {
        line.accepted[number]?.way == .zeroMQ && wasCut(line.sender, from: line.port)
    }

    /// The same for a request.
    func mayLoseByCut(_ port: PortID, of asker: Process) -> Bool {
        guard let facts = ports[port] else { return false }
        return !(facts.holders + [asker]).allSatisfy(makesRings) && wasCut(asker, from: port)
    }

    private func wasCut(_ sender: Process, from port: PortID) -> Bool {
        guard let facts = ports[port], !facts.moves.isNone else { return false }
        return sender.wasCut || facts.holders.contains(where: \.wasCut)
    }

    /// “A message that the former owner is handling may end after the first that the new one handles.”
    private func noteTaker(of number: UInt32, _ line: Line) {
        let process = machine.current.process
        guard let facts = ports[line.port], facts.owner !== process, line.inHand[number] == nil else { return }
        // The claim has succeeded, and has not returned.
        if facts.moves.claimants.contains(where: { $0 === process }) || facts.moves.takeInHand(of: process) { return }
        machine.fail("\(process) takes message \(number) from a port that \(facts.owner) has")
    }

    // MARK: Descriptors

    /// The files behind all descriptors that were sent.
    var marks: [MarkFile] = []

    private var carriedCount: UInt32 = 0

    /// The number of a request with a descriptor.
    func nextCarried() -> UInt32 {
        carriedCount += 1
        return carriedCount
    }

    /// The descriptor that a message was sent with.
    func descriptor(of number: UInt32, _ line: UInt32) -> SentDescriptor? { lines[Int(line)].descriptors[number] }

    func mayLoseDescriptor(of number: UInt32, _ line: UInt32) -> Bool {
        lines[Int(line)].returns.contains { $0.mayLoseDescriptor(of: number) }
    }

    /// The descriptors that are open when nobody is there any more.
    var leftOpen: [String] {
        marks.filter { !$0.isClosed }.map { "the descriptor of message \($0.number) of line \($0.line) is left open" }
    }

    // MARK: Moves

    private var offers: [PortID: PortID] = [:]
    private var servers: Set<PortID> = []

    /// Whether an offered port takes requests.
    func isServer(_ offer: PortID) -> Bool { offered(by: offer).map(servers.contains) ?? false }

    /// A program offers a port.
    /// - Parameter offer: The port that takes the claims.
    func offers(_ port: PortID, by offer: PortID) {
        machine.story.tell(machine) { "offers port \(port.number)" }
        offers[offer] = port
    }

    private func offered(by offer: PortID) -> PortID? {
        if falseOffers.contains(offer) { return nil }
        return offers[offer] ?? lastHandOvers[offer.incarnation]
    }

    /// The ports that were offered, as their present processes know them.
    var offeredHomes: [PortID] { Set(offers.values).compactMap { ports[$0]?.home }.sorted { $0.file < $1.file } }

    private var falseOffers: Set<PortID> = []

    /// A program offers a port that is not there.
    func offersFalsely(_ offer: PortID) { falseOffers.insert(offer) }
    func isFalse(_ offer: PortID) -> Bool { falseOffers.contains(offer) }

    func claims(_ offer: PortID) {
        guard let port = offered(by: offer) else { machine.fail("an offer came that nobody has made") }
        offers[offer] = port
        machine.story.tell(machine) { "claims port \(port.number) of \(owner(port))" }
        ports[port]?.moves.begin(by: machine.current.process)
    }

    func claimed(_ port: PortID, at home: PortID, by offer: PortID, isValid: @escaping () -> Bool) {
        if offers[offer] != port { machine.fail("a claim has brought another port than was offered") }
        guard let facts = ports[port] else { return }
        let process = machine.current.process
        noted.moves += 1
        machine.story.tell(machine) { "has port \(port.number) of \(facts.owner)" }
        facts.since = facts.moves.succeed(by: process, after: facts.owner)
        if facts.isLent, facts.owner !== facts.lender, process !== facts.lender {
            for line in lines where line.port == port { line.passedOn = line.begun }
            facts.hasPassedOn = true
        }
        // “Until the other process has the port, also when that is the supervisor, nothing is lost, whoever ends.”
        if process === facts.lender { facts.lender = nil }
        facts.holders.append(process)
        (facts.owner, facts.home, facts.isValid, facts.isEnding, facts.endTime) = (process, home, isValid, false, nil)
    }

    func failedToClaim(_ offer: PortID) {
        guard let port = offers[offer] else { return }
        machine.story.tell(machine) { "fails to claim port \(port.number)" }
        ports[port]?.moves.fail(by: machine.current.process)
    }

    // MARK: Loans

    /// - Returns: The number of the loan.
    func lends(_ port: PortID) -> Int {
        machine.story.tell(machine) { "lends port \(port.number)" }
        guard let facts = ports[port] else { return 0 }
        (facts.lender, facts.loanCount) = (machine.current.process, facts.loanCount + 1)
        for line in lines where line.port == port { line.passedOn = 0 }
        facts.isFinishing = false
        return facts.loanCount
    }

    /// The lender waits for the port no more.
    /// - Parameter loan: The number of the loan; nil for the last one.
    func endsLoan(_ port: PortID, _ loan: Int? = nil) {
        guard let facts = ports[port], facts.lender === machine.current.process,
            loan ?? facts.loanCount == facts.loanCount
        else { return }
        facts.lender = nil
        facts.formerLender = (machine.current.process, machine.now)
    }

    func cameBack(_ port: PortID, at home: PortID, isValid: @escaping () -> Bool) {
        guard let facts = ports[port] else { return }
        let process = machine.current.process
        noted.returns += 1
        machine.story.tell(machine) { "has port \(port.number) back from \(facts.owner)" }
        noteLosses(port, facts)
        facts.returnTime = machine.now
        _ = facts.moves.succeed(by: process, after: facts.owner.isDead ? nil : facts.owner)
        (facts.owner, facts.home, facts.isValid, facts.isEnding, facts.endTime, facts.lender) =
            (process, home, isValid, false, nil, nil)
        facts.since = machine.now
    }

    /// Notes what may be lost at the end of the borrower, or of several ones.
    private func noteLosses(_ port: PortID, _ facts: PortFacts) {
        let dead = facts.moves.claims.filter { $0.process.isDead }
        let isBorrowed = facts.owner !== facts.lender
        let borrowers = dead.map(\.process) + (isBorrowed ? [facts.owner] : [])
        guard let since = (dead.map(\.begin) + (isBorrowed ? [facts.since] : [])).min() else { return }
        for line in lines where line.port == port {
            // A dead process may have got the port of another borrower.
            let passedOn = isBorrowed && !dead.isEmpty ? line.begun : line.passedOn
            line.returns.append(
                LoanReturn(
                    line.received + 1..<max(line.received, line.begun) + 1, from: borrowers,
                    at: isBorrowed ? facts.home : nil, since: since, passedOn: passedOn))
        }
        // “The message in its hand is gone.”
        let sent = lines.filter { $0.port == port && $0.begun > $0.received }
        for _ in borrowers.filter(\.isDead) {
            facts.lostInHand.append(
                Dictionary(sent.compactMap { line in line.next.map { (line.number, $0) } }, uniquingKeysWith: min))
        }
    }

    /// The lent ports that have not come back from borrowers that have ended them.
    var unreturned: [String] {
        ports.filter { _, facts in
            facts.isLent && !facts.moves.isUncertain && facts.owner !== facts.lender
                && (facts.owner.isDead || facts.endTime != nil)
        }.map { "port \($0.key.number) has not come back from \($0.value.owner)" }.sorted()
    }

    /// The ports that have gone although nobody has ended or claimed them.
    var vanished: [String] {
        ports.filter { _, facts in
            !facts.moves.isNone && !facts.moves.isUncertain && !facts.moves.hasDeadClaimant && !facts.owner.isDead
                && !facts.isEnding && !facts.isLent && !facts.isValid()
        }.map { "port \($0.key.number) of \($0.value.owner) has vanished in a move" }.sorted()
    }

    /// The messages of all lines until now.
    var begun: [UInt32] { lines.map(\.begun) }

    /// The messages that have to come, and have not.
    /// - Parameter begun: The last message of each line that counts.
    func missing(_ begun: [UInt32]) -> [String] {
        zip(lines, begun).compactMap { line, begun in
            guard let facts = ports[line.port], facts.isAlive, !line.isLossTold else { return nil }
            if let late = line.inHand.first(where: { !$0.value.contains(where: \.isDead) })?.key {
                return
                    "message \(late) of \(line.sender) to \(facts.owner) has not come, and nobody who had it has died"
            }
            let due = line.due(0...begun).filter { number in
                (line.accepted[number]?.isKept == true || !line.sender.isDead) && !isLostByCut(number, of: line)
            }
            guard let last = due.max(), last > line.received else { return nil }
            let left = due.filter { $0 > line.received }
            if left.count == 1, facts.lostInHand.contains(where: { $0[line.number] == left[0] }) { return nil }
            return "message \(last) of \(line.sender) to \(facts.owner) has not come, \(line.received) was the last"
        }
    }

    /// The sends that have not ended.
    /// - Parameter begun: The last message of each line that counts.
    func unended(_ begun: [UInt32]) -> [String] {
        zip(lines, begun).compactMap { line, begun in
            guard line.isInCall, line.begun == begun, !line.sender.isDead, let facts = ports[line.port] else {
                return nil
            }
            return "message \(begun) of \(line.sender) to \(facts.owner) is not sent"
        }
    }
}
