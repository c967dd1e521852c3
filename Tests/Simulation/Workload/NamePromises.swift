@testable import Ports

/// The promises about names. Each check is a sentence of Promises.md.
final class NamePromises {
    private unowned let promises: Promises
    private var holders: [String: PortID] = [:]
    /// The last owners of the names whose folders somebody has removed.
    private var formerHolders: [String: PortID] = [:]
    /// All owners whose entries of a name somebody has removed. The first one that restores its own has the name.
    private var robbed: [String: [PortID]] = [:]
    private var timesTaken: [String: Int] = [:]
    private(set) var count = 0
    /// Names that only one port ever has.
    var further: [String] = []
    /// The names whose entries were removed once.
    private var lostNames: Set<String> = []
    /// When somebody last removed a name's entry, by the name's folder, and all entries.
    private var losses: [String: UInt64] = [:]
    private var lossOfAll: UInt64 = 0

    init(_ promises: Promises) { self.promises = promises }

    // MARK: Losses

    private func file(_ name: String) -> String { (try? NameEntry.fileName(for: name)) ?? "" }

    /// Somebody has removed the name's entry.
    /// - Parameter isRestored: Whether its owner notices that.
    func lost(_ file: String, isRestored: Bool) {
        losses[file] = machine.now
        for (name, port) in holders where self.file(name) == file {
            lostNames.insert(name)
            robbed[name, default: []].append(port)
            holders[name] = nil
            if isRestored { formerHolders[name] = port }
        }
    }

    /// Somebody has removed all entries.
    func lostAll() {
        lossOfAll = machine.now
        lostNames.formUnion(holders.keys)
        for (name, port) in holders { robbed[name, default: []].append(port) }
        // Owners move to a new directory when they use it, and not before.
        (holders, formerHolders) = ([:], [:])
    }

    /// Whether somebody has removed the entry of a name.
    func wasRemoved(_ name: String) -> Bool { losses[file(name)] != nil }

    /// The owners that have not restored the entries of their names.
    var unrestored: [String] {
        formerHolders.compactMap { name, port in
            guard let facts = promises.ports[port], facts.isAlive, facts.moves.isNone, facts.owner.hearsFiles,
                !robbed[name, default: []].contains(where: {
                    promises.ports[$0]?.isAlive == true && hasEntry(of: name, $0)
                })
            else { return nil }
            return "\(facts.owner) has not restored the entry of \(name)"
        }.sorted()
    }

    private func hasEntry(of name: String, _ port: PortID) -> Bool {
        machine.files.exists("\(Scenario.directory)/names/\(file(name))/\(port.file)")
    }

    // MARK: Names and their ports

    /// Gives a name to a port.
    func take<Failure: Error>(_ name: String, for port: PortID, by take: () throws(Failure) -> Void) throws(Failure) {
        let begin = machine.now
        let (_, holder) = try holder(of: name, during: take)
        // “The name is never free.”
        if let holder, holder != port {
            machine.fail(
                "\(machine.current.process) has the name \(name) of port \(holder.number) of \(promises.owner(holder))")
        }
        took(name, port, begin: begin)
    }

    /// A name was given to a port.
    /// - Parameter begin: The time of the call. An entry that was removed since may have been this one.
    func took(_ name: String, _ port: PortID, begin: UInt64) {
        count += 1
        machine.story.tell(machine) { "has the name \(name) for port \(port.number)" }
        // The exit of a process gives up the names that it is just getting, too.
        if machine.current.process.isExiting { return }
        // A port that ends during the call gives the name up at once.
        if promises.ports[port]?.isEnding == true { return }
        timesTaken[name, default: 0] += 1
        if begin <= max(losses[file(name)] ?? 0, lossOfAll) {
            // Another process may have taken the name since. Its former owner does not restore it.
            lostNames.insert(name)
            formerHolders[name] = nil
            return
        }
        if let holder = holders[name], holder != port, let facts = promises.ports[holder], facts.isAlive {
            machine.fail("\(name) has two live owners: \(facts.owner) and \(machine.current.process)")
        }
        // “The name is never free, and the rights of all processes stay valid.”
        if let holder = holders[name], holder != port, promises.isLent(holder), !lostNames.contains(name) {
            machine.fail("\(machine.current.process) has the name \(name) of a port that is lent")
        }
        (holders[name], formerHolders[name]) = (port, nil)
    }

    /// The names of a port, as far as the programs know.
    func of(_ port: PortID) -> [String] { holders.filter { $0.value == port }.keys.sorted() }

    /// The names of lent ports whose borrowers end, and of ports that somebody claims.
    var onTheWay: [String] { holders.filter { isOnTheWay($0.value) }.keys.sorted() }
    var isAnyOnTheWay: Bool { holders.values.contains(where: isOnTheWay) }

    private func isOnTheWay(_ port: PortID) -> Bool {
        guard let facts = promises.ports[port] else { return false }
        let isComingBack = facts.isLent && facts.owner !== facts.lender && (facts.isEnding || facts.owner.isEnding)
        return isComingBack || facts.moves.claimants.contains { !$0.isDead }
    }

    /// The port that a name leads to now, whatever becomes of the move of the port: all processes that may have the port live.
    private func holder(of name: String) -> PortID? {
        guard !lostNames.contains(name), !promises.isDirectoryLost, let port = holders[name],
            let facts = promises.ports[port]
        else {
            return nil
        }
        if let lender = facts.lender { return lender.isEnding || facts.owner === lender && facts.isEnding ? nil : port }
        let owners = [facts.owner] + facts.moves.claimants
        return facts.isEnding || facts.wasOver(at: machine.now) || owners.contains(where: \.isEnding) ? nil : port
    }

    /// The port that has had a name all the time of a call, without a fault. The rights of a process that exits are over.
    private func holder<Result, Failure: Error>(
        of name: String, during call: () throws(Failure) -> Result
    ) throws(Failure) -> (result: Result, holder: PortID?) {
        let (port, errors, times) = (holder(of: name), machine.faults.count, timesTaken[name])
        let result = try call()
        let isSure =
            holder(of: name) == port && timesTaken[name] == times && machine.faults.count == errors
            && !machine.current.process.isExiting
        return (result, isSure ? port : nil)
    }

    /// Looks a name up.
    /// - Parameter find: Nil when nobody has the name.
    func find<Found, Failure: Error>(_ name: String, by find: () throws(Failure) -> Found?) throws(Failure) -> Found? {
        let (found, port) = try holder(of: name, during: find)
        // “The name is never free.”
        if found == nil, let port, !promises.isBeingEndedHere(port) {
            machine.fail(
                "nobody has the name \(name), says a look, and port \(port.number) of \(promises.owner(port)) has it")
        }
        return found
    }

    /// A name was refused, because a port has it.
    /// - Parameter begin: The time of the call.
    func refused(_ name: String, by port: PortID, begin: UInt64) {
        // The homes at which a port was before its end give its names up a moment later.
        let time = promises.ports[port]?.moves.isNone == true ? begin : begin - min(begin, 1_000_000_000)
        guard let facts = promises.ports[port], facts.wasOver(at: time), !facts.moves.isUncertain, !facts.isLent,
            // An exit gives up all names when its messages have left.
            !facts.owner.isExiting,
            // It may just come back to a lender that waits for it no more, and ends it.
            facts.formerLender.map({ !$0.process.isStopped && $0.since < time && $0.process.stoppedTime == 0 }) ?? true,
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

    func gaveUpAll(of port: PortID) {
        for (name, holder) in holders where holder == port { gaveUp(name, port) }
    }

    /// A watch says that the name has gone. The watch of a process that exits sees nobody any more.
    func saysGone(_ name: String, _ port: PortID) {
        if machine.current.process.isExiting || promises.isBeingEndedHere(port) { return }
        if holders[name] == port, let facts = promises.ports[port], facts.isAlive, !lostNames.contains(name) {
            machine.fail("a watch says that \(name) of the living \(facts.owner) has gone")
        }
    }
}
