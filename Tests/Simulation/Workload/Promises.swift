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
        /// For each message whether it is in the receiver's memory, and its size.
        var accepted: [UInt32: (isKept: Bool, size: Int)] = [:]
        var received: UInt32 = 0
        /// A message that a former owner of the port took, and has not looked at yet.
        var inHand: UInt32?
        /// Whether the sender was told that messages were lost.
        var isLossTold = false
        /// The messages that may not come, because a borrower of the port had them, and not in a lane of its lender's.
        var mayBeLost: Set<UInt32> = []

        /// The accepted messages in a range that have to come.
        func due(_ range: ClosedRange<UInt32>) -> [UInt32] {
            range.filter { accepted[$0] != nil && !mayBeLost.contains($0) }
        }

        init(_ number: UInt32, _ sender: Process, _ port: PortID, _ flow: Flow) {
            (self.number, self.sender, self.port, self.flow) = (number, sender, port, flow)
        }
    }

    /// The messages of one process to one port.
    final class Flow {
        /// The messages that have a place in the lane, as far as the programs know, and their bytes.
        var (waiting, bytes) = (0, 0)
    }

    final class PortFacts {
        /// The process that has made the port, or that has claimed it last.
        fileprivate(set) var owner: Process
        let queueLimit: Int
        let byteLimit: Int?
        fileprivate(set) var isValid: () -> Bool
        fileprivate(set) var moves = PortMoves()
        /// The process that gets the port back; nil for a port that is not lent.
        fileprivate(set) var lender: Process?
        /// The processes that have claimed it since it was lent.
        fileprivate var borrowers = 0
        /// The messages that killed borrowers may have had in hand.
        fileprivate var lostInHand = 0
        /// The messages of programs that were taken from the port.
        var taken = 0
        /// Whether the owner has begun to end the port.
        var isEnding = false
        /// When the owner's call that ends the port has returned.
        var endTime: UInt64?

        init(_ owner: Process, _ queueLimit: Int, _ byteLimit: Int?, _ isValid: @escaping () -> Bool) {
            (self.owner, self.queueLimit, self.byteLimit, self.isValid) = (owner, queueLimit, byteLimit, isValid)
        }

        func wasOver(at time: UInt64) -> Bool { [endTime, owner.endTime].contains { $0.map { $0 < time } ?? false } }
        /// Whether a living process waits for the port.
        var isLent: Bool { lender?.isDead == false }
        /// Whether the port lives, and nobody is claiming it.
        var isAlive: Bool { !owner.isDead && !isEnding && isValid() && !moves.isUncertain }
    }

    private var lines: [Line] = []
    private var flows: [String: Flow] = [:]
    private var ports: [PortID: PortFacts] = [:]
    private var holders: [String: PortID] = [:]
    /// The owners of the names whose folders somebody has removed.
    private var formerHolders: [String: PortID] = [:]
    let requests = RequestPromises()
    private var watches: [(watcher: Process, port: PortID, isTold: Bool)] = []
    private var noted = Counts()

    var counts: Counts {
        var counts = noted
        (counts.requests, counts.replies) = (requests.count, requests.replyCount)
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

    func noteRestart() { noted.restarts += 1 }
    func noteStream() { noted.streams += 1 }

    // MARK: Ports and names

    func made(
        _ port: PortID, by owner: Process, queueLimit: Int, byteLimit: Int? = nil, isValid: @escaping () -> Bool
    ) {
        machine.story.tell(machine) { "makes port \(port.number)" }
        ports[port] = PortFacts(owner, queueLimit, byteLimit, isValid)
    }

    /// The messages of programs that were taken from a port that nobody has claimed.
    func takenCount(at port: PortID) -> Int? { ports[port].flatMap { $0.moves.isNone ? $0.taken : nil } }

    /// The messages of programs that were sent to a port, or are being sent; nil for a port of requests.
    func begunCount(at port: PortID) -> Int? {
        let found = lines.filter { $0.port == port }
        return found.isEmpty ? nil : found.reduce(0) { $0 + Int($1.begun) }
    }

    func ends(_ port: PortID) {
        machine.story.tell(machine) { "ends port \(port.number)" }
        if let facts = ports[port], facts.owner === machine.current.process { facts.isEnding = true }
    }

    /// The call that ends the port has returned.
    /// - Parameter home: The port as its present process knows it.
    func ended(_ port: PortID, at home: PortID) {
        if let facts = ports[port], facts.owner === machine.current.process { facts.endTime = machine.now }
        if machine.files.exists("\(Scenario.directory)/\(home.incarnation)/\(home.number)") {
            machine.fail("the socket of an ended port of \(machine.current.process) is left")
        }
    }

    private func file(_ name: String) -> String { (try? NameEntry.fileName(for: name)) ?? "" }

    /// Somebody has removed the name's entry.
    /// - Parameter isRestored: Whether its owner notices that.
    func lost(_ file: String, isRestored: Bool) {
        for (name, port) in holders where self.file(name) == file {
            lostNames.insert(name)
            holders[name] = nil
            if isRestored { formerHolders[name] = port }
        }
    }

    /// Somebody has removed all entries.
    func lostAll() {
        lostNames.formUnion(holders.keys)
        // Owners move to a new directory when they use it, and not before.
        (holders, formerHolders) = ([:], [:])
        // Nobody may find a port's new home any more.
        isDirectoryLost = true
    }

    private var isDirectoryLost = false

    /// The names whose entries were removed once.
    private var lostNames: Set<String> = []

    /// The owners that have not restored the entries of their names.
    var unrestored: [String] {
        formerHolders.compactMap { name, port in
            guard let facts = ports[port], facts.isAlive, facts.moves.isNone, facts.owner.hearsFiles,
                !machine.files.exists("\(Scenario.directory)/names/\(file(name))/\(port.file)")
            else { return nil }
            return "\(facts.owner) has not restored the entry of \(name)"
        }.sorted()
    }

    func took(_ name: String, _ port: PortID) {
        noted.names += 1
        machine.story.tell(machine) { "has the name \(name) for port \(port.number)" }
        if let holder = holders[name], holder != port, let facts = ports[holder], facts.isAlive {
            machine.fail("\(name) has two live owners: \(facts.owner) and \(machine.current.process)")
        }
        (holders[name], formerHolders[name]) = (port, nil)
    }

    /// A name was refused, because a port has it.
    /// - Parameter begin: The time of the call.
    func refused(_ name: String, by port: PortID, begin: UInt64) {
        guard let facts = ports[port], facts.wasOver(at: begin), !facts.moves.isUncertain, !facts.isLent,
            // By then, the pid may be another process's.
            !machine.processes.contains(where: { $0 !== facts.owner && $0.pid == facts.owner.pid && $0.state != .gone })
        else { return }
        machine.fail("\(name) is refused, because an ended port of \(facts.owner) has it")
    }

    func gaveUp(_ name: String, _ port: PortID) {
        machine.story.tell(machine) { "gives up the name \(name)" }
        if holders[name] == port { holders[name] = nil }
        if formerHolders[name] == port { formerHolders[name] = nil }
    }

    private func owner(_ port: PortID) -> String { ports[port].map { "\($0.owner)" } ?? "?" }

    /// A watch says that the name has gone.
    func saysGone(_ name: String, _ port: PortID) {
        if holders[name] == port, let facts = ports[port], facts.isAlive, !lostNames.contains(name) {
            machine.fail("a watch says that \(name) of the living \(facts.owner) has gone")
        }
    }

    // MARK: Deaths

    func watching(_ port: PortID) -> Int {
        watches.append((machine.current.process, port, false))
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
        if let facts = ports[port], facts.isAlive, facts.moves.isNone || !isDirectoryLost {
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

    /// - Parameter isKept: Whether the message is in the receiver's memory.
    func accepted(_ number: UInt32, of line: Line, size: Int, isKept: Bool) {
        line.isInCall = false
        line.accepted[number] = (isKept, size)
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
        if line.received == number || line.inHand == number {
            machine.fail("a message arrived although its send has failed")
        }
    }

    func received(_ lineNumber: UInt32, _ number: UInt32, at port: PortID, from pid: Int32?) {
        noted.received += 1
        guard Int(lineNumber) < lines.count else { machine.fail("a message came that nobody has sent") }
        let line = lines[Int(lineNumber)]
        if line.port != port { machine.fail("a message came to another port than it was sent to") }
        noteTaker(of: number, line)
        if number == line.inHand {
            line.inHand = nil
            ports[port]?.taken += 1
            machine.story.tell(machine) { "takes message \(number) of line \(lineNumber), which it had in hand" }
            return
        }
        if number <= line.received { machine.fail("message \(number) of a line came after \(line.received)") }
        if let pid, pid != line.sender.pid { machine.fail("a message of \(line.sender) came as one of process \(pid)") }
        if line.accepted[number] == nil, number != line.begun || !line.isInCall {
            machine.fail("message \(number) came, whose send has failed")
        }
        var lost = line.received + 1 < number ? line.due(line.received + 1...number - 1)[...] : []
        if line.inHand == nil, let first = lost.first, ports[port]?.moves.inHand.popLast() != nil {
            line.inHand = first
            lost.removeFirst()
        }
        if !lost.isEmpty, let facts = ports[port], facts.lostInHand > 0 {
            facts.lostInHand -= 1
            lost.removeFirst()
        }
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

    /// The port of a process that has lost it may have one message in hand, which may be seen late.
    private func noteTaker(of number: UInt32, _ line: Line) {
        let process = machine.current.process
        guard let facts = ports[line.port], facts.owner !== process, number != line.inHand else { return }
        // The claim has succeeded, and has not returned.
        if facts.moves.claimants.contains(where: { $0 === process }) || facts.moves.inHand.popLast() != nil { return }
        machine.fail("\(process) takes message \(number) from a port that \(facts.owner) has")
    }

    // MARK: Moves

    private var offers: [PortID: PortID] = [:]

    /// A program offers a port.
    /// - Parameter offer: The port that takes the claims.
    func offers(_ port: PortID, by offer: PortID) {
        machine.story.tell(machine) { "offers port \(port.number)" }
        offers[offer] = port
    }

    func claims(_ offer: PortID) {
        guard let port = offers[offer] else { machine.fail("an offer came that nobody has made") }
        machine.story.tell(machine) { "claims port \(port.number) of \(owner(port))" }
        ports[port]?.moves.begin(by: machine.current.process)
    }

    func claimed(_ port: PortID, by offer: PortID, isValid: @escaping () -> Bool) {
        if offers[offer] != port { machine.fail("a claim has brought another port than was offered") }
        guard let facts = ports[port] else { return }
        let process = machine.current.process
        noted.moves += 1
        machine.story.tell(machine) { "has port \(port.number) of \(facts.owner)" }
        facts.moves.succeed(by: process)
        if facts.lender != nil { facts.borrowers += 1 }
        // The lender has nothing of what one borrower gives another.
        if facts.borrowers > 1 { mayLose(port) { _, _ in true } }
        (facts.owner, facts.isValid, facts.isEnding, facts.endTime) = (process, isValid, false, nil)
    }

    func failedToClaim(_ offer: PortID) {
        guard let port = offers[offer] else { return }
        machine.story.tell(machine) { "fails to claim port \(port.number)" }
        ports[port]?.moves.fail(by: machine.current.process)
    }

    // MARK: Loans

    func lends(_ port: PortID) {
        machine.story.tell(machine) { "lends port \(port.number)" }
        ports[port]?.lender = machine.current.process
        ports[port]?.borrowers = 0
    }

    /// The lender waits for the port no more.
    func endsLoan(_ port: PortID) { if ports[port]?.lender === machine.current.process { ports[port]?.lender = nil } }

    func cameBack(_ port: PortID, isValid: @escaping () -> Bool) {
        guard let facts = ports[port] else { return }
        let process = machine.current.process
        noted.returns += 1
        machine.story.tell(machine) { "has port \(port.number) back from \(facts.owner)" }
        if facts.owner.isDead || facts.moves.hasDeadClaimant { facts.lostInHand += 1 }
        mayLose(port) { line, number in line.sender === facts.owner || line.accepted[number]?.isKept != true }
        facts.moves.succeed(by: process)
        (facts.owner, facts.isValid, facts.isEnding, facts.endTime, facts.lender) = (process, isValid, false, nil, nil)
    }

    private func mayLose(_ port: PortID, where isMeant: (Line, UInt32) -> Bool) {
        for line in lines where line.port == port && line.begun > line.received {
            line.mayBeLost.formUnion((line.received + 1...line.begun).filter { isMeant(line, $0) })
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
            let due = line.due(0...begun).filter { line.accepted[$0]?.isKept == true || !line.sender.isDead }
            guard let last = due.max(), last > line.received else { return nil }
            if facts.lostInHand > 0, due.count(where: { $0 > line.received }) <= facts.lostInHand { return nil }
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
