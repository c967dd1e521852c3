import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Ports that move from one runtime to another.
@Suite(.ownThread) struct MovingPortTests {
    let homes: Homes
    let sandbox = Sandbox()

    init() { homes = Homes(sandbox) }

    private func runtime(_ sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible) -> PortRuntime {
        homes.runtime(sharedMemory)
    }

    private func sharedMemory(_ way: Way) -> PortRuntime.SharedMemoryUse { way == .zeroMQ ? .never : .whenPossible }

    private func right(to port: MachPort, in runtime: PortRuntime) throws -> MachPort.SendRight {
        try homes.right(to: port, in: runtime)
    }

    /// Moves a port.
    private func move(_ port: MachPort, to runtime: PortRuntime) throws -> MachPort {
        try homes.received(port, in: runtime).claim(before: .patience)
    }

    private func ids(_ port: MachPort, _ count: Int) throws -> [UInt32] {
        try (0..<count).map { _ in try port.receive(before: .patience).id }
    }

    @Test func `a right that nobody uses keeps the channel to the present home alone`() throws {
        var port = try MachPort(nameServer: homes.runtime().nameServer)
        let right = try right(to: port, in: homes.runtime())
        // A channel that has sent watches the port.
        try right.send(MachPort.Message(id: 1), before: .patience)
        #expect(try port.receive(before: .patience).id == 1)
        let first = right.channel
        for _ in 0..<5 {
            port = try move(port, to: homes.runtime())
            let home = port.receiver.id
            #expect(waitUntil { first.successor.withLock { $0?.id } == home })
        }
        let next = try #require(first.successor.withLock { $0 })
        // The thread that has moved the channels may be about to note who follows whom.
        let isDone = Latch()
        try next.channels.housekeeping.perform { isDone.open() }
        #expect(isDone.wait(until: .patience))
        let hasMoved = next.hasMoved.load(ordering: .acquiring)
        #expect(!hasMoved)
        #expect(next.channels.takeFollowers(of: next.id).compactMap(\.object).map(\.id) == [first.id])
        try right.send(MachPort.Message(id: 2), before: .patience)
        #expect(try port.receive(before: .patience).id == 2)
    }

    @Test func `a moved port's name is restored beside an entry that a dead owner has left`() throws {
        let former = try MachPort(nameServer: homes.runtime().nameServer)
        try former.runtime.nameServer.register(former, name: "mine")
        let port = try move(former, to: homes.runtime())
        let dead = WireRight(
            id: PortID(incarnation: .random(), number: 1), queueLimit: 1, limit: 1, path: sandbox.path)
        try sandbox.plant(NameEntry(name: "mine", right: dead, of: port.id))
        let entry = "\(try sandbox.folder("mine"))/\(port.receiver.id.file)"
        #expect(unlink(entry) == 0)
        try port.receiver.exposure.directoryOfSocket().renewNames()
        #expect(waitUntil { access(entry, F_OK) == 0 })
        #expect(try port.runtime.nameServer.names() == ["mine"])
    }

    /// The next owner has been told the names by then.
    @Test func `a port that is being handed over gets no further name`() throws {
        let port = try MachPort(nameServer: homes.runtime().nameServer)
        try port.runtime.nameServer.register(port, name: "first")
        port.receiver.exposure.hide()
        #expect(errorKind { try port.runtime.nameServer.register(port, name: "second") } == "unavailable")
        #expect(errorKind { try port.runtime.nameServer.remove(port, name: "first") } == "unavailable")
        #expect(waitUntil { (try? port.runtime.nameServer.names()) == ["first"] })
        port.receiver.exposure.show()
        try port.runtime.nameServer.register(port, name: "second")
        #expect(try port.runtime.nameServer.names().sorted() == ["first", "second"])
    }

    @Test func `of thousands of names the last ones come after the port, and keep nobody waiting`() throws {
        let (former, next) = (homes.runtime(), homes.runtime())
        let port = try MachPort(nameServer: former.nameServer)
        let names = (0..<1000).map { "name \($0)" }
        for name in names { try former.nameServer.register(port, name: name) }
        let id = port.sendRight.id
        let right = try homes.received(port, in: next)
        let claim = Helper { try? right.claim(before: .patience) }
        // A block that comes while the names are taken does not wait for all of them.
        @Sendable func taken() -> Int {
            next.ports.all.first { $0.channel.publicID == id }?.exposure.registeredNames.count ?? 0
        }
        #expect(waitUntil { taken() > 0 })
        let atBlock = Shared<Int?>(nil)
        try next.housekeeping.perform {
            let count = taken()
            atBlock.withLock { $0 = count }
        }
        #expect(waitUntil { atBlock.withLock { $0 } != nil })
        #expect(atBlock.withLock { $0 } ?? 1000 < 1000)
        let moved = try #require(claim.join())
        #expect(waitUntil { moved.receiver.exposure.registeredNames.count == 1000 })
        #expect(try former.nameServer.port(forName: "name 999", before: .patience).id == moved.sendRight.id)
    }

    /// It has no connection of ZeroMQ, so none of its messages can be on their way.
    @Test func `a process that reads and does not answer delays a move by seconds`() throws {
        let port = try MachPort(nameServer: homes.runtime().nameServer)
        guard port.runtime.control.takesRings else { return }
        let sender = try homes.right(to: port, in: homes.runtime())
        try sender.send(MachPort.Message(id: 1), before: .patience)
        let peer = try HostilePeer(to: port)
        peer.say(.watch(port.receiver.id.number))
        let right = try homes.received(port, in: homes.runtime())
        let claim = Helper { Result { () throws(PortError) in try right.claim(before: .patience) } }
        #expect(
            waitUntil {
                peer.ignore()
                return claim.value(before: .now) != nil
            })
        #expect(try ids(try claim.join().get(), 1) == [1])
    }

    /// Another way would overtake them.
    @Test func `what is on its way by ZeroMQ stays first when the port has not moved`() throws {
        let port = try MachPort(nameServer: homes.runtime().nameServer)
        let sender = try homes.right(to: port, in: homes.runtime(.never))
        try sender.send(MachPort.Message(id: 1), before: .patience)
        // Nobody takes the message, and so nobody answers the probe.
        sender.channel.waitForMove()
        #expect(sender.channel.isOnTheMove)
        sender.channel.stay()
        #expect(sender.channel.isOpen)
        try sender.send(MachPort.Message(id: 2), before: .patience)
        for id in 1...2 as ClosedRange<UInt32> { #expect(try port.receive(before: .patience).id == id) }
    }

    @Test func `an owner knows who sends by ZeroMQ, also after the connection was cut`() throws {
        let port = try MachPort(nameServer: homes.runtime().nameServer)
        let runtime = homes.runtime()
        guard runtime.control.takesRings else { return }
        let sender = try homes.right(to: port, in: runtime)
        let isSent = Latch()
        // That thread waits for no ring.
        try runtime.housekeeping.perform {
            if (try? sender.send(MachPort.Message(id: 1), before: .patience)) != nil { isSent.open() }
        }
        #expect(isSent.wait(until: .patience))
        #expect(waitUntil { port.receiver.ringless.withLock { $0 } == [runtime.incarnation] })
        port.receiver.ringless.withLock { $0 = [] }
        try sender.channel.connectToOwner(before: .patience)?.cut()
        #expect(waitUntil { port.receiver.ringless.withLock { $0 } == [runtime.incarnation] })
    }

    @Test func `nobody takes from a port that moves, also when somebody has looked into its queue`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        try port.sendRight.send(MachPort.Message(id: 1), before: .patience)
        let intake = port.receiver.intake
        intake.pause()
        // As for a question about the port.
        #expect(!intake.look().isEmpty)
        #expect(!intake.hasKnownMore)
        intake.takeAgain(with: [])
        #expect(try ids(port, 1) == [1])
    }

    @Test func `a right tells the end of a port that has moved twice`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let sender = try right(to: port, in: runtime())
        let second = try move(port, to: runtime())
        try sender.send(MachPort.Message(id: 1), before: .patience)
        #expect(try ids(second, 1) == [1])
        let isTold = Shared(false)
        sender.onInvalidation { isTold.withLock { $0 = true } }
        let third = try move(second, to: runtime())
        for id in 2...3 as ClosedRange<UInt32> { try sender.send(MachPort.Message(id: id), before: .patience) }
        #expect(try ids(third, 2) == [2, 3])
        third.invalidate()
        #expect(waitUntil { isTold.withLock { $0 } })
    }

    @Test func `a port goes back while its former owner still lets it go`() throws {
        let runtimes = [runtime(), runtime()]
        let inboxes = try runtimes.map { try MachPort(nameServer: $0.nameServer) }
        // Of each inbox, for the other runtime.
        let rights = [try right(to: inboxes[0], in: runtimes[1]), try right(to: inboxes[1], in: runtimes[0])]
        var port = try MachPort(nameServer: runtimes[0].nameServer)
        let sender = try right(to: port, in: runtime())
        for round in 0..<Scale.count(200, long: 5000) {
            try sender.send(MachPort.Message(id: UInt32(round)), before: .patience)
            let next = (round + 1) % 2
            try rights[next].send(MachPort.Message(id: 7, [.receiveRight(port)]), before: .patience)
            let message = try inboxes[next].receive(before: .patience)
            port = try #require(message.receiveRight(ofComponent: 0)).claim(before: .patience)
            // Some of the messages go along.
            if round % 2 == 1 { #expect(try ids(port, 2) == [UInt32(round - 1), UInt32(round)]) }
        }
    }

    /// A message inside a runtime has another form than one to another process. The first move converts it here, which
    /// takes longer than the second move.
    @Test(arguments: [0, 1])
    func `a message that waits follows a port that moves on at once`(_ sendingHome: Int) throws {
        let runtimes = [runtime(), runtime()]
        let port = try MachPort(queueLimit: 1, nameServer: runtimes[0].nameServer)
        let sender = sendingHome == 0 ? port.sendRight : try right(to: port, in: runtimes[1])
        try sender.send(MachPort.Message(id: 1), before: .patience)
        let channel = sender.channel
        let (error, isOver) = (Shared<PortError?>(nil), Shared(false))
        let thread = try RunLoopThread { _ in
            let components = [MachPort.Message.Component](repeating: .bytes([7]), count: 20_000)
            do throws(PortError) {
                try sender.send(MachPort.Message(id: 2, components), before: .now + .seconds(20))
            } catch let sendError {
                error.withLock { $0 = sendError }
            }
            isOver.withLock { $0 = true }
        }
        // By ZeroMQ, it does not wait.
        #expect(waitUntil { isOver.withLock { $0 } || channel.state.withLock { !$0.queue.waiters.isEmpty } })
        let back = try move(move(port, to: runtimes[1]), to: runtimes[0])
        #expect(try ids(back, 2) == [1, 2])
        thread.stop()
        thread.join()
        #expect(error.withLock { $0 } == nil)
    }

    /// Does something when a port has moved, and is still to be let go.
    private final class SlowLoan: PortLoan {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        var terms: LoanTerms? { nil }
        func begin(in directory: RegistryDirectory) {}
        func stayed(in directory: RegistryDirectory) {}
        func lend(_ messages: [LocalMessage], _ names: [RegisteredName], at home: PortID) { body() }
        func takeIfWanted() {}
        func stays() {}
    }

    @Test func `a claim waits until this process has let the port go`() throws {
        let (first, second) = (runtime(), runtime())
        let port = try MachPort(nameServer: first.nameServer)
        let sender = try right(to: port, in: runtime())
        let isClaimed = Latch()
        let loan = SlowLoan { _ = isClaimed.wait(until: .now + .milliseconds(300)) }
        try PortOffer.of(port).lend(loan)
        let gone = try move(port, to: second)
        let back: MachPort
        do {
            defer { isClaimed.open() }
            back = try move(gone, to: first)
        }
        #expect(back.id == port.id)
        for id in 1...2 as ClosedRange<UInt32> { try sender.send(MachPort.Message(id: id), before: .patience) }
        #expect(try ids(back, 2) == [1, 2])
        #expect(waitUntil { !gone.isValid && !port.isValid })
        try port.sendRight.send(MachPort.Message(id: 3), before: .patience)
        try gone.sendRight.send(MachPort.Message(id: 4), before: .patience)
        #expect(try ids(back, 2) == [3, 4])
    }

    @Test func `a port that is invalidated here when it has moved lives on`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let sender = try right(to: port, in: runtime())
        let isTold = Shared(false)
        port.sendRight.onInvalidation { isTold.withLock { $0 = true } }
        // The end of the port here waits until it has been let go.
        let loan = SlowLoan {
            let thread = try? RunLoopThread { _ in port.receiver.invalidate(waitsUntil: nil) }
            thread?.stop()
            thread?.join()
        }
        try PortOffer.of(port).lend(loan)
        let moved = try move(port, to: runtime())
        #expect(waitUntil { port.receiver.invalidated.value != nil })
        for (id, right) in [port.sendRight, sender].enumerated() {
            try right.send(MachPort.Message(id: UInt32(id)), before: .patience)
        }
        #expect(try ids(moved, 2) == [0, 1])
        #expect(!isTold.withLock { $0 })
        moved.invalidate()
        #expect(waitUntil { isTold.withLock { $0 } })
    }

    @Test func `who comes late finds a port whose former owner handles a message still`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let late = try right(to: port, in: runtime())
        try port.receiver.intake.beginTurn()
        let moved = try move(port, to: runtime())
        #expect(waitUntil { port.receiver.channel.hasMoved.load(ordering: .acquiring) })
        try late.send(MachPort.Message(id: 1), before: .patience)
        #expect(try ids(moved, 1) == [1])
        #expect(port.receiver.invalidated.value == nil)
        port.receiver.intake.endTurn()
        #expect(waitUntil { port.receiver.invalidated.value != nil })
    }

    @Test func `a port whose last move has failed moves, also when a sender has no ring`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let sender = try right(to: port, in: runtime(.never))
        for id in 1...3 as ClosedRange<UInt32> {
            try sender.send(MachPort.Message(id: id), before: .patience)
            let claimant = try Claimant(try homes.received(port, in: runtime()))
            #expect(claimant.ids == Array(1...id))
            // The next move begins to probe only when nobody does.
            #expect(waitUntil { sender.channel.state.withLock { !$0.isProbing } })
            try claimant.fail()
            #expect(waitUntil { !port.receiver.intake.isPaused })
        }
    }

    enum Answer: CaseIterable { case taken, refused, takenAfterEnd }

    /// The owner cannot ask the registry, because the file that says who has the port is gone.
    @Test(arguments: Answer.allCases) func `a claimant says whether it has a port whose directory is lost`(
        _ answer: Answer
    ) throws {
        let (owner, path) = (runtime(), sandbox.path)
        let port = try MachPort(nameServer: owner.nameServer)
        let claimant = try Claimant(try homes.received(port, in: runtime()))
        let toClaimant = owner.channels.channel(to: try claimant.parts.sendRight.channel.exposedRight())
        if answer != .refused { try claimant.commit(port.id, in: owner.registry.directory(path)) }
        sandbox.remove(path)
        // Something else than the answer ends the wait for it: the owner's time is over, or the claimant's port has ended.
        if answer == .takenAfterEnd {
            claimant.parts.invalidate()
            #expect(waitUntil { !toClaimant.isValid })
        } else {
            try claimant.sayReady()
        }
        if answer == .refused { try claimant.fail() } else { try claimant.sayTaken() }
        if answer == .refused {
            #expect(waitUntil { !port.receiver.intake.isPaused })
            #expect(port.isValid)
        } else {
            #expect(waitUntil { port.receiver.channel.hasMoved.load(ordering: .acquiring) })
        }
    }

    /// Who waits for such a message would otherwise not know who has the port.
    @Test func `a message about a move goes on when its receiver can be reached again`() throws {
        let (owner, claimant) = (runtime(), runtime())
        let answers = try MachPort(nameServer: owner.nameServer)
        let right = try answers.sendRight.channel.exposedRight()
        let sender = MachPort.SendRight(claimant.channels.channel(to: right))
        let path = sandbox.path
        #expect(rename(path, path + ".away") == 0)
        MachPort.Message(.taken).post(to: sender)
        // The first attempt has failed.
        #expect(waitUntil { sender.channel.posted.withLock { $0.count } == 0 })
        #expect(rename(path + ".away", path) == 0)
        #expect(try answers.receive(before: .patience).step == .taken)
    }

    @Test func `nobody claims a port that was withdrawn while it was being handed over`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let offer = try PortOffer.of(port)
        let claimant = try Claimant(try homes.received(port, in: runtime()))
        let next = try homes.received(port, in: runtime())
        let end = try #require(PortOffer.withdrawUnlessClaimed(port))
        try claimant.fail()
        #expect(end.wait(until: .now + .seconds(30)) != nil)
        #expect(errorKind { _ = try next.claim(before: .patience) } == "cannotMove")
        #expect(port.isValid)
        withExtendedLifetime(offer) {}
    }

    @Test func `a port that is being handed over for good is not lent`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let claimant = try Claimant(try homes.received(port, in: runtime()))
        #expect(errorKind { _ = try MachPort.Loan(port) } == "cannotMove")
        try claimant.fail()
        #expect(waitUntil { (try? MachPort.Loan(port)) != nil })
    }

    @Test func `a port that is nowhere but at a former home has ended`() throws {
        let (channels, path) = (runtime().channels, sandbox.path)
        let homes = (1...3).map { PortID(incarnation: .random(), number: $0) }
        var right = try PortLimits().right(homes[0])
        right.path = path
        let first = channels.channel(to: right)
        channels.move(first, to: homes[1], in: path)
        let second = first.latest
        channels.move(second, to: homes[2], in: path)
        let last = first.latest
        #expect(last.id == homes[2])
        channels.move(last, to: homes[1], in: path)
        #expect(!last.isValid)
        #expect(first.latest === last)
        #expect(first.invalidated.value != nil)
    }

    @Test func `nobody gets a port that its owner has ended in the midst of a move`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        let directory = try port.receiver.exposure.directoryOfSocket()
        let home = PortID(incarnation: runtime().channels.incarnation, number: 7)
        try directory.beginMove(of: port.id, to: home)
        port.receiver.exposure.hide()
        port.invalidate()
        #expect(!directory.commitMove(of: port.id, to: home))
    }

    @Test(arguments: Way.allCases)
    func `a port moves with what waits, and its senders follow`(_ way: Way) throws {
        let owner = runtime(sharedMemory(way))
        let port = try MachPort(nameServer: owner.nameServer)
        let sender = way == .thread ? port.sendRight : try right(to: port, in: runtime(sharedMemory(way)))
        for id in 1...10 { try sender.send(MachPort.Message(id: UInt32(id)), before: .patience) }
        let moved = try move(port, to: runtime())
        #expect(moved.id == port.id)
        #expect(moved.sendRight == sender)
        #expect(waitUntil { !port.isValid })
        for id in 11...20 { try sender.send(MachPort.Message(id: UInt32(id)), before: .patience) }
        #expect(try ids(moved, 20) == Array(1...20))
        try port.sendRight.send(MachPort.Message(id: 21), before: .patience)
        #expect(try moved.receive(before: .patience).id == 21)
        #expect(sender.isValid)
    }

    @Test func `what a waiting message has comes with it`() throws {
        let (owner, other) = (runtime(), runtime())
        let port = try MachPort(nameServer: owner.nameServer)
        let reply = try MachPort(nameServer: other.nameServer)
        let sender = try right(to: port, in: other)
        let pipe = SentPipe()
        try sender.send(
            MachPort.Message(
                id: 5, [.bytes([1, 2, 3]), .port(reply.sendRight), .descriptor(pipe.descriptor), .bytes([])],
                replyPort: reply.sendRight), before: .patience)
        let moved = try move(port, to: runtime())
        let message = try moved.receive(before: .patience)
        #expect(message.components.count == 4)
        #expect(message.components.first == .bytes([1, 2, 3]))
        #expect(message.port(ofComponent: 1) == reply.sendRight)
        let descriptor = try #require(message.descriptor(ofComponent: 2))
        #expect(SentPipe.inode(of: try descriptor.number) == pipe.inode)
        #expect(message.sender?.pid == getpid())
        try #require(message.replyPort).send(MachPort.Message(id: 6), before: .patience)
        #expect(try reply.receive(before: .patience).id == 6)
    }

    @Test func `a port that stays has its descriptors, and one that has not come keeps no port from moving`() throws {
        let (pipe, own) = (SentPipe(), SenderCredentials(pid: getpid(), uid: geteuid(), gid: getegid()))
        let message = LocalMessage(
            kind: .request, id: 3, request: 4,
            components: [
                .descriptor(MessageDescriptor(missing: .descriptorLost)), .descriptor(pipe.descriptor), .bytes([1]),
            ], replyRight: nil, size: 60)
        let sent = try MachPort.Message(waiting: message, own: own)
        let waiting = try #require(sent.waiting)
        #expect(waiting.header == message.header)
        #expect(waiting.sender == own)
        func descriptor(_ index: Int) -> MessageDescriptor? {
            if case .descriptor(let descriptor)? = waiting.component(index) { descriptor } else { nil }
        }
        #expect(portError { _ = try descriptor(0)?.number } == .descriptorLost)
        #expect(try descriptor(1).map { SentPipe.inode(of: try $0.number) } == pipe.inode)
        #expect(SentPipe.inode(of: try pipe.descriptor.number) == pipe.inode)
    }

    @Test func `a name goes with its port`() throws {
        let (first, second, third) = (runtime(), runtime(), runtime())
        let port = try MachPort(nameServer: first.nameServer)
        try first.nameServer.register(port, name: "clock")
        let moved = try move(port, to: second)
        let found = try third.nameServer.port(forName: "clock")
        #expect(found == moved.sendRight)
        try found.send(MachPort.Message(id: 3), before: .patience)
        #expect(try moved.receive(before: .patience).id == 3)
        let other = try MachPort(nameServer: third.nameServer)
        #expect(errorKind { try third.nameServer.register(other, name: "clock") } == "nameInUse")
        #expect(try third.nameServer.registrations().filter { $0.name == "clock" }.count == 1)
        moved.invalidate()
        #expect(waitUntil { !found.isValid })
        try third.nameServer.register(other, name: "clock")
    }

    @Test func `rights notice the end of the port, not its move`() throws {
        let (first, second, third) = (runtime(), runtime(), runtime())
        let port = try MachPort(nameServer: first.nameServer)
        let right = try right(to: port, in: third)
        let (ends, leaves) = (Shared(0), Shared(0))
        right.onInvalidation { ends.withLock { $0 += 1 } }
        port.sendRight.onInvalidation { ends.withLock { $0 += 1 } }
        port.onInvalidation { leaves.withLock { $0 += 1 } }
        let moved = try move(port, to: second)
        #expect(waitUntil { leaves.withLock { $0 } == 1 })
        #expect(ends.withLock { $0 } == 0)
        moved.invalidate()
        #expect(waitUntil { ends.withLock { $0 } == 2 })
        #expect(errorKind { try right.send(MachPort.Message(), before: .patience) } == "isInvalid")
    }

    @Test func `a port moves on, and back`() throws {
        let homes = [runtime(), runtime(), runtime()]
        let port = try MachPort(nameServer: homes[0].nameServer)
        try homes[0].nameServer.register(port, name: "clock")
        let senders = try homes.map { try right(to: port, in: $0) } + [try right(to: port, in: runtime())]
        var current = port
        for step in 1...6 {
            current = try move(current, to: homes[step % 3])
            for (index, sender) in senders.enumerated() {
                try sender.send(MachPort.Message(id: UInt32(index)), before: .patience)
                #expect(try current.receive(before: .patience).id == UInt32(index))
            }
        }
        #expect(current.id == port.id)
        #expect(try runtime().nameServer.port(forName: "clock") == current.sendRight)
    }

    @Test func `a sender that waits for room goes on at the new home`() throws {
        let (first, second, third) = (runtime(), runtime(), runtime())
        let port = try MachPort(queueLimit: 4, nameServer: first.nameServer)
        let right = try right(to: port, in: third)
        let sent = Shared(0)
        let thread = try RunLoopThread { _ in
            for id in 0..<50 {
                try? right.send(MachPort.Message(id: UInt32(id)), before: .patience)
                sent.withLock { $0 += 1 }
            }
        }
        defer { thread.stop() }
        #expect(waitUntil { sent.withLock { $0 } >= 4 })
        let moved = try move(port, to: second)
        #expect(try ids(moved, 50) == Array(0..<50))
    }

    @Test func `waiting requests are answered by the new owner, and taken ones by the old`() async throws {
        let (first, second, third) = (runtime(), runtime(), runtime())
        let taken = Shared<[MessagePortRequest]>([])
        let server = try LocalMessagePort(name: "store", nameServer: first.nameServer) { request in
            taken.withLock { $0.append(request) }
        }
        let loop = try await RunLoopThread()
        defer { loop.stop() }
        try server.schedule(in: loop.loop)
        let remote = try await RemoteMessagePort(name: "store", nameServer: third.nameServer)
        async let one = remote.request(id: 1, [1], timeout: .seconds(60))
        #expect(await waitUntil { taken.withLock { $0.count } == 1 })
        server.remove(from: loop.loop)
        // A turn that goes on may still take one.
        let isIdle = Shared(false)
        try loop.loop.perform { isIdle.withLock { $0 = true } }
        #expect(await waitUntil { isIdle.withLock { $0 } })
        async let two = remote.request(id: 2, [2], timeout: .seconds(60))
        #expect(await waitUntil { server.port.receiver.intake.look().isEmpty == false })
        let inbox = try MachPort(nameServer: second.nameServer)
        try second.nameServer.register(inbox, name: "successor")
        let way = try await first.nameServer.port(forName: "successor")
        async let isDone = server.handOver(to: way, id: 9, before: .patience)
        let message = try await inbox.receive(before: .patience)
        let right = try #require(message.receiveRight(ofComponent: 0))
        let successor = try await LocalMessagePort(claiming: right, nameServer: second.nameServer, before: .patience) {
            try? $0.replyRight?.reply(with: [22])
        }
        #expect(successor.name == "store")
        try successor.schedule(in: loop.loop)
        #expect(try await two == [22])
        try taken.withLock { $0 }[0].replyRight?.reply(with: [11])
        #expect(try await one == [11])
        taken.withLock { $0 = [] }
        #expect(try await isDone)
        #expect(try await remote.request(id: 3, timeout: .seconds(60)) == [22])
        withExtendedLifetime(successor) {}
    }

    @Test func `handlers that run when the port goes reply, and so do those that wait for their turn`() async throws {
        let (first, second, third) = (runtime(), runtime(), runtime())
        let server = try LocalMessagePort(name: "store", nameServer: first.nameServer)
        // The second request is taken before there is a handler for it.
        let lane = RequestLane("slow", atMost: 1)
        for id in 1...2 as ClosedRange<UInt32> { server.setKind(RequestKind(name: "Slow", lane: lane), ofRequests: id) }
        let (begun, goesOn) = (Shared(0), Promise<Void>())
        let serving = Task {
            try await server.serveMessages(atMost: 10) { request in
                begun.withLock { $0 += 1 }
                _ = try await goesOn.value(before: .distantFuture, on: first.housekeeping)
                return request.message
            }
        }
        let remote = try await RemoteMessagePort(name: "store", nameServer: third.nameServer)
        async let one = remote.request(id: 1, [1], timeout: .seconds(60))
        #expect(await waitUntil { begun.withLock { $0 } == 1 })
        async let two = remote.request(id: 2, [2], timeout: .seconds(60))
        #expect(await waitUntil { server.port.receiver.intake.totals.taken == 2 })
        let inbox = try MachPort(nameServer: second.nameServer)
        try second.nameServer.register(inbox, name: "successor")
        let way = try await first.nameServer.port(forName: "successor")
        async let isDone = server.handOver(to: way, before: .patience)
        let right = try #require(try await inbox.receive(before: .patience).receiveRight(ofComponent: 0))
        let successor = try await LocalMessagePort(claiming: right, nameServer: second.nameServer, before: .patience)
        #expect(await waitUntil { !server.isValid })
        goesOn.set(())
        #expect(try await one == [1])
        #expect(try await two == [2])
        #expect(try await isDone)
        try await serving.value
        withExtendedLifetime(successor) {}
    }

    /// The deadline may come between the two.
    @Test func `a hand-over is over when the port has ended here, not when its channel leads on`() throws {
        let (first, second) = (runtime(), runtime())
        let server = try LocalMessagePort(nameServer: first.nameServer)
        let way = try right(to: MachPort(nameServer: second.nameServer), in: first)
        let claimant = try Claimant(try homes.received(server.port, in: second))
        server.port.receiver.channel.hasMoved.store(true, ordering: .releasing)
        let end = try #require(Departure(of: server, to: way).giveUp())
        #expect(end.value == nil)
        try claimant.fail()
        #expect(end.wait(until: .patience) != nil)
    }

    /// The number of the port at its first home may be another port's here.
    @Test func `a message port that was claimed finishes`() async throws {
        let (first, second) = (runtime(), runtime())
        let former = try LocalMessagePort(name: "store", nameServer: first.nameServer)
        let remote = try await RemoteMessagePort(name: "store", nameServer: runtime().nameServer)
        let others = try (0..<20).map { _ in try MachPort(nameServer: second.nameServer) }
        let rights = try others.map { try right(to: $0, in: first) }
        for right in rights { right.onInvalidation {} }
        let server = try await LocalMessagePort(
            claiming: try homes.received(former.port, in: second), nameServer: second.nameServer, before: .patience)
        let serving = Task { try await server.serve { _ in [22] } }
        #expect(try await remote.request(id: 1, timeout: .seconds(60)) == [22])
        #expect(await server.finish(before: .patience))
        #expect(await waitUntil { !remote.sendRight.isValid })
        try await serving.value
        // The answers come behind what the process has told before.
        for right in rights { _ = try await right.ping(before: .patience) }
        #expect(!rights.contains { !$0.isValid })
    }

    /// The next owner takes the port, and is gone when the owner hears of it.
    @Test func `a port that was taken has gone, though its taker ends`() async throws {
        let (first, second) = (runtime(), runtime())
        let server = try LocalMessagePort(name: "store", nameServer: first.nameServer)
        let inbox = try MachPort(nameServer: second.nameServer)
        try second.nameServer.register(inbox, name: "successor")
        let way = try await first.nameServer.port(forName: "successor")
        async let isDone = server.handOver(to: way, before: .patience)
        let right = try #require(try await inbox.receive(before: .patience).receiveRight(ofComponent: 0))
        let parts = try MachPort(nameServer: second.nameServer)
        try await right.offer.send(MachPort.Message(.claim, replyPort: parts.sendRight), before: .patience)
        let answers = try #require(try await parts.receive(before: .patience).replyPort)
        let home = PortID(incarnation: second.channels.incarnation, number: 77)
        try await answers.send(MachPort.Message(.ready, [MachPort.Message.bytes(of: [home.number])]), before: .patience)
        #expect(try await parts.receive(before: .patience).step == .complete)
        let directory = try server.port.receiver.exposure.directoryOfSocket()
        #expect(directory.commitMove(of: server.port.id, to: home))
        inbox.invalidate()
        #expect(await waitUntil { !way.isValid })
        try await answers.send(MachPort.Message(.taken), before: .patience)
        #expect(try await isDone)
        #expect(server.hasMoved)
    }

    /// A broken owner ends a move that it has not begun.
    @Test func `a claim fails when its owner says that all has come, and nothing has`() async throws {
        let (first, second) = (runtime(), runtime())
        let claims = try MachPort(nameServer: first.nameServer)
        let offer = MachPort.ReceiveRight(offer: try right(to: claims, in: second))
        let claiming = Task { try await offer.claim(before: .patience) }
        let parts = try #require(try await claims.receive(before: .patience).replyPort)
        try await parts.send(MachPort.Message(.complete), before: .patience)
        let error = await #expect(throws: PortError.self) { try await claiming.value }
        #expect(error.map { "\($0)" }?.contains("another kind") == true)
    }

    /// The next owner has ended the port before it has taken the name, and lives.
    @Test func `a name is free when its port has ended at the home that has not taken it`() async throws {
        let (first, second, third) = (runtime(), runtime(), runtime())
        let port = try MachPort(nameServer: first.nameServer)
        try first.nameServer.register(port, name: "store")
        let claimant = try Claimant(try homes.received(port, in: second))
        try claimant.take(port.id, in: port.receiver.exposure.directoryOfSocket())
        #expect(await waitUntil { !port.isValid })
        let next = try MachPort(nameServer: third.nameServer)
        try third.nameServer.register(next, name: "store")
        #expect(try await first.nameServer.port(forName: "store").id == next.id)
        #expect(claimant.parts.isValid)
    }

    @Test func `a hand-over has succeeded when the port goes by an earlier offer`() async throws {
        let (first, second) = (runtime(), runtime())
        let server = try LocalMessagePort(name: "store", nameServer: first.nameServer)
        let offered = try homes.received(server.port, in: second)
        let full = try MachPort(queueLimit: 1, nameServer: second.nameServer)
        let way = try right(to: full, in: first)
        try await way.send(MachPort.Message(id: 1), before: .patience)
        while (try? await way.send(MachPort.Message(id: 1), before: .now + .milliseconds(200))) != nil {}
        async let isDone = server.handOver(to: way, before: .patience)
        #expect(await waitUntil { way.channel.latest.state.withLock { !$0.queue.waiters.isEmpty } })
        let successor = try await LocalMessagePort(claiming: offered, nameServer: second.nameServer, before: .patience)
        #expect(await waitUntil { !server.isValid })
        full.invalidate()
        #expect(try await isDone)
        withExtendedLifetime(successor) {}
    }

    @Test func `inside a runtime the port itself is handed over`() throws {
        let runtime = runtime()
        let (port, inbox) = (try MachPort(nameServer: runtime.nameServer), try MachPort(nameServer: runtime.nameServer))
        try inbox.sendRight.send(MachPort.Message(id: 7, [.receiveRight(port)]), before: .patience)
        let right = try #require(try inbox.receive(before: .patience).receiveRight(ofComponent: 0))
        #expect(try right.claim() === port)
        #expect(port.isValid)
        #expect(errorKind { _ = try right.claim() } == "isInvalid")
    }

    @Test func `a port that ends is not claimed`() throws {
        let (first, second) = (runtime(), runtime())
        let port = try MachPort(nameServer: first.nameServer)
        let right = try homes.received(port, in: second)
        port.invalidate()
        let error = portError { _ = try right.claim(before: .patience) }
        #expect(error == .isInvalid(port: right.offer.identity) || error == .becameInvalid(port: right.offer.identity))
    }

    // MARK: Under load

    /// Threads send numbered messages while the port moves again and again. Nothing is lost, doubled or out of order.
    @Test(arguments: Way.allCases)
    func `nothing is lost, doubled or out of order while a port moves`(_ way: Way) throws {
        let moves = Scale.count(30, long: 1000)
        let homes = (0..<3).map { _ in runtime(sharedMemory(way)) }
        let port = try MachPort(queueLimit: 100, nameServer: homes[0].nameServer)
        let rights =
            try way == .thread
            ? homes.map { try right(to: port, in: $0) }
            : [
                right(to: port, in: runtime(sharedMemory(way))), right(to: port, in: runtime(sharedMemory(way))),
            ]
        let isOver = Shared(false)
        let sent = Shared([Int](repeating: 0, count: rights.count))
        let errors = Shared<[String]>([])
        let threads = try rights.enumerated().map { index, right in
            try RunLoopThread { _ in
                while !isOver.withLock({ $0 }) {
                    let number = sent.withLock { $0[index] }
                    do {
                        try right.send(
                            MachPort.Message(id: UInt32(index), bytes: withUnsafeBytes(of: number) { Array($0) }),
                            before: .patience)
                        sent.withLock { $0[index] += 1 }
                    } catch {
                        return errors.withLock { $0.append("\(error)") }
                    }
                }
            }
        }
        let got = Shared([Int](repeating: 0, count: rights.count))
        let faults = Shared<[String]>([])
        let handler: MachPort.Handler = { message in
            let number = message.withBytes { $0.withUnsafeBytes { $0.loadUnaligned(as: Int.self) } } ?? -1
            got.withLock { got in
                let index = Int(message.id)
                if number != got[index] {
                    faults.withLock { $0.append("message \(number) of \(index) in place of \(got[index])") }
                }
                got[index] = number + 1
            }
        }
        let loops = try homes.map { _ in try RunLoopThread() }
        var current = port
        var times = Times()
        current.setHandler(handler)
        try current.schedule(in: loops[0].loop)
        for step in 1...moves {
            // Each sender goes on at each home. A port that moved sooner would take more and more messages along, for which
            // its senders would wait.
            let before = sent.withLock { $0 }
            let allGoOn = waitUntil {
                got.withLock { got in got.indices.allSatisfy { got[$0] > before[$0] } }
                    || !faults.withLock { $0.isEmpty } || !errors.withLock { $0.isEmpty }
            }
            #expect(allGoOn)
            let right = try self.homes.received(current, in: homes[step % 3])
            // The old owner may be handling its last message when the new one begins.
            let former = current
            let start = ContinuousClock.now
            current = try right.claim(before: .patience)
            times.add(.now - start)
            #expect(waitUntil { !former.isValid && former.receiver.intake.turnCount == 0 })
            current.setHandler(handler)
            try current.schedule(in: loops[step % 3].loop)
        }
        Scale.show("a claim under load, \(way): \(times.summary)")
        isOver.withLock { $0 = true }
        for thread in threads { thread.stop() }
        for thread in threads { thread.join() }
        #expect(errors.withLock { $0 } == [])
        #expect(waitUntil { got.withLock { $0 } == sent.withLock { $0 } })
        #expect(faults.withLock { $0.prefix(3) } == [])
        for loop in loops { loop.stop() }
    }
}
