import Glibc
import OwnThread
import RunLoops
import Synchronization
import TestSupport
import Testing
import ZeroMQ

@testable import Ports

/// Both ends of a ring, in one process.
private final class Ends {
    private var sender: RingSender
    /// The sender's end.
    let bell: Bell
    let receiver: RingReceiver
    /// The receiver's view of the memory, which a hostile sender could have, too.
    let memory: RingMemory
    private let descriptor: OwnedDescriptor

    init(queueLimit: Int = 1000, byteLimit: Int = 0, peer: Incarnation = .random()) throws {
        let (descriptor, memory) = try #require(RingMemory.make())
        self.descriptor = descriptor
        let (bell, other) = try #require(Bell.make())
        let view = try #require(RingMemory(descriptor.number))
        self.memory = try #require(RingMemory(descriptor.number))
        receiver = RingReceiver(
            memory, bell, peer: peer, sender: SenderCredentials(pid: 1, uid: 2, gid: 3), queueLimit: queueLimit)
        self.bell = Bell(other)
        sender = RingSender(view, self.bell, queueLimit: queueLimit, byteLimit: byteLimit)
    }

    deinit { memory.unmap() }

    func send(_ bytes: [UInt8]) -> RingSender.Published? {
        guard let start = sender.reserve(bytes.count, messageSize: bytes.count) else { return nil }
        bytes.withUnsafeBytes { if let source = $0.baseAddress { start.copyMemory(from: source, byteCount: $0.count) } }
        return sender.publish(bytes.count, messageSize: bytes.count, sentCount: 0)
    }

    /// As if that number of further records had been sent and taken.
    func skip(_ count: UInt32) {
        sender.sent &+= count
        sender.knownTaken &+= count
        receiver.taken &+= count
    }

    /// Sends a message in memory of its own, if the sender may.
    /// - Parameter isLost: Whether its memory does not come.
    func sendLarge(_ size: Int = 4, isLost: Bool = false) throws -> Bool {
        guard sender.mayHandOver(), let start = sender.reserve(LargeRecord.recordSize, messageSize: size) else {
            return false
        }
        if !isLost {
            let memory = LargeRecord.make(try ZeroMQFrame(count: size))
            let isSent = bell.send(try #require(memory))
            #expect(isSent)
        }
        sender.noteHandOver()
        LargeRecord.write(size, to: start)
        _ = sender.publish(LargeRecord.recordSize, kind: RingMemory.Kind.large, messageSize: size, sentCount: 0)
        return true
    }

    /// The size of the next message; 0 for one that is lost.
    func takeMessage() -> Int? {
        guard case .record(let record) = receiver.look() else { return nil }
        return receiver.takeFrame(record)?.count
    }

    var populated: Int { sender.populated }
    var waitingCount: Int { sender.waitingCount() }
    func askForRoom() { sender.askForRoom() }
    func trim() -> Bool { sender.trim() }

    func take() -> [UInt8]? {
        guard case .record(let record) = receiver.look() else { return nil }
        let bytes = Array(record.bytes)
        receiver.take(record, size: bytes.count)
        return bytes
    }

    var isBroken: Bool { if case .broken = receiver.look() { true } else { false } }

    /// The ring as the lender of its port has it.
    var lent: LentRing {
        get throws {
            let copy = OwnedDescriptor(dup(descriptor.number))
            let home = PortID(incarnation: .random(), number: 1)
            return LentRing(memory: copy, peer: receiver.peer, sender: receiver.sender, home: home)
        }
    }

    /// The records that a second reader finds.
    func left() throws -> [[UInt8]] {
        let ring = try #require(try lent.left(1 << 20, queueLimit: 1000))
        var left: [[UInt8]] = []
        while case .frame(let frame) = ring.next() { left.append(frame.withUnsafeBytes { Array($0) }) }
        return left
    }
}

/// Bytes of a record, which is never smaller than the smallest frame.
private func record(_ byte: UInt8, count: Int = Wire.headerSize) -> [UInt8] { [UInt8](repeating: byte, count: count) }

@Suite(.ownThread, .enabled(if: Sandbox.hasRings)) struct RingTests {
    let sandbox = Sandbox()

    // MARK: The ring

    @Test func `a ring that cannot be read for a moment is read later`() throws {
        let ends = try Ends()
        for byte in 1...3 as ClosedRange<UInt8> { _ = ends.send(record(byte)) }
        let (ring, nothing) = (try ends.lent, OwnedDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)))
        let (lent, other) = (try ends.lent, ring.memory.number)
        #expect(dup2(nothing.number, lent.memory.number) >= 0)
        #expect(lent.left(1 << 20, queueLimit: 1000) == nil)
        let number = lent.memory.number
        let helper = Helper { dup2(other, number) >= 0 }
        let left = try #require(lent.left(1 << 20, queueLimit: 1000, until: .patience))
        #expect(helper.join())
        var read: [UInt8?] = []
        for isThere in [true, false, false, true, true] {
            #expect(dup2(isThere ? other : nothing.number, lent.memory.number) >= 0)
            switch left.next() {
            case .frame(let frame): read.append(frame.withUnsafeBytes { $0[0] })
            case .missing: read.append(nil)
            case .nothing: Issue.record("the ring has ended")
            }
        }
        #expect(read == [1, nil, nil, 2, 3])
    }

    @Test func `a large message comes with its memory, also after billions of records`() throws {
        let ends = try Ends()
        ends.skip(1 << 31)
        #expect(try ends.sendLarge(100))
        #expect(ends.takeMessage() == 100)
        #expect(ends.takeMessage() == nil)
    }

    @Test func `large messages come in their order, between others and rings of the bell`() throws {
        let ends = try Ends()
        for size in 100..<106 {
            ends.bell.ring()
            #expect(try ends.sendLarge(size))
            ends.bell.ring()
            _ = ends.send(record(1))
        }
        for size in 100..<106 {
            if size % 2 == 0 { ends.receiver.open() }
            #expect(ends.takeMessage() == size)
            #expect(ends.takeMessage() == Wire.headerSize)
        }
    }

    @Test func `who copies what waits leaves the memory to those who take`() throws {
        let ends = try Ends()
        for size in [100, 101] {
            #expect(try ends.sendLarge(size))
            _ = ends.send(record(1))
        }
        #expect(ends.takeMessage() == 100)
        ends.receiver.stop()
        var (place, sizes) = (ends.receiver.place, [] as [Int])
        while case .frame(let frame) = ends.receiver.copyNext(&place) { sizes.append(frame.count) }
        #expect(sizes == [Wire.headerSize, 101, Wire.headerSize])
        #expect((0..<3).map { _ in ends.takeMessage() } == [Wire.headerSize, 101, Wire.headerSize])
    }

    @Test func `the sender of a large message notices that the receiver has ended the ring`() throws {
        let (descriptor, memory) = try #require(RingMemory.make())
        let (bell, other) = try #require(Bell.make())
        var ring = RingConnection()
        var receiver: RingReceiver? = RingReceiver(
            memory, bell, peer: .random(), sender: SenderCredentials(pid: 1, uid: 2, gid: 3), queueLimit: 10)
        let view = try #require(RingMemory(descriptor.number))
        ring.open(RingSender(view, Bell(other), queueLimit: 10, byteLimit: 0))
        receiver?.end()
        receiver = nil
        let outcome = ring.send(try ZeroMQFrame(count: 20 << 20), sentCount: 1, sandbox.names.runtime.housekeeping)
        #expect(outcome == .ended)
    }

    @Test func `memory that no message has announced is not kept without bound`() throws {
        let (ends, before) = (try Ends(), openDescriptors())
        for _ in 0..<100 {
            let memory = LargeRecord.make(try ZeroMQFrame(count: 1))
            let isSent = ends.bell.send(try #require(memory))
            #expect(isSent)
            ends.receiver.open()
        }
        #expect(ends.receiver.memorySize == 0)
        #expect(openDescriptors() <= before + 40)
    }

    @Test func `large messages of billions of records ago leave room for others`() throws {
        let ends = try Ends()
        for _ in 0..<8 { #expect(try ends.sendLarge()) }
        #expect(try !ends.sendLarge())
        for _ in 0..<8 { #expect(ends.takeMessage() == 4) }
        ends.skip(1 << 31 | 100)
        #expect(try ends.sendLarge())
    }

    @Test func `a ring waits behind its peer's former one, and is looked at when that has ended`() throws {
        let peer = Incarnation.random()
        let (former, next) = (try Ends(peer: peer), try Ends(peer: peer))
        var rings = RingIntake()
        let isAdded = rings.add(former.receiver)
        _ = former.send(record(1))
        rings.stopAll(of: peer)
        let isNextAdded = rings.add(next.receiver)
        let newest = rings.rings(of: peer).last
        #expect(isAdded && isNextAdded && newest === next.receiver)
        #expect(next.send(record(2)) == .opened)
        #expect(next.bell.ring())
        // The bell is heard, though the ring waits.
        rings.hear()
        #expect(former.take()?.first == 1)
        let isClosed = rings.close()
        let hasRecords = rings.hasRecords
        #expect(!isClosed && hasRecords)
        #expect(next.take()?.first == 2)
        let isClosedNow = rings.close()
        #expect(isClosedNow)
    }

    /// Otherwise ZeroMQ would have its turn in between, by which the peer sends now.
    @Test func `the end of a stopped ring shows the record of the next one at once`() throws {
        let peer = Incarnation.random()
        let ends = [try Ends(peer: peer), try Ends(peer: peer)]
        var rings = RingIntake()
        for (number, end) in ends.enumerated() {
            let isAdded = rings.add(end.receiver)
            #expect(isAdded)
            _ = end.send(record(UInt8(number)))
            rings.stopAll(of: peer)
        }
        for number in 0...1 as ClosedRange<UInt8> {
            let haveRecords = rings.haveStoppedRecords
            #expect(haveRecords)
            let next = rings.look()
            let found = next.flatMap { $0.ring.takeFrame($0.record)?.withUnsafeBytes { $0.first } }
            #expect(found == number)
        }
    }

    /// Otherwise a peer that asks for ring after ring would keep ZeroMQ from its turn for ever.
    @Test func `a peer gets no ring after ring without an end of what waits in its stopped ones`() throws {
        // Two, of which one always has messages.
        let peers = [Incarnation.random(), .random()]
        var rings = RingIntake()
        var count = 0
        while count <= 2 * RingIntake.mostInRow {
            let peer = peers[count % 2]
            let ends = try Ends(peer: peer)
            guard rings.add(ends.receiver) else { break }
            count += 1
            for number in 1...2 as ClosedRange<UInt8> { _ = ends.send(record(number)) }
            rings.stopAll(of: peer)
            // The rings before this one are emptied only now.
            while rings.all.count > 3, let next = rings.look() { _ = next.ring.takeFrame(next.record) }
            let haveRecords = rings.haveStoppedRecords
            #expect(haveRecords)
        }
        // The first ring of each follows none.
        #expect(count == RingIntake.mostInRow + 2)
        let isOther = rings.add(try Ends().receiver)
        #expect(isOther)
        rings.endRow()
        let isAdded = rings.add(try Ends(peer: peers[0]).receiver)
        #expect(isAdded)
    }

    @Test func `a ring behind one whose message got no memory shows no record`() throws {
        let peer = Incarnation.random()
        let ends = [try Ends(peer: peer), try Ends(peer: peer)]
        var rings = RingIntake()
        for end in ends {
            let isAdded = rings.add(end.receiver)
            #expect(isAdded)
            _ = end.send(record(2))
            rings.stopAll(of: peer)
        }
        rings.block(ends[0].receiver)
        let haveRecords = rings.haveStoppedRecords
        #expect(!haveRecords)
        rings.openBlocked()
        let first = rings.look()?.ring === ends[0].receiver
        let haveRecordsNow = rings.haveStoppedRecords
        #expect(first && haveRecordsNow)
    }

    @Test func `records of all sizes come in order, however the ends take turns`() throws {
        var random = SplitMix64(seed: drawnSeed())
        let ends = try Ends()
        func bytes(_ number: Int) -> [UInt8] {
            var random = SplitMix64(seed: UInt64(number))
            let size = [16, 17, 23, 24, 25, 500, 5000, 70_000, 400_000].randomElement(using: &random) ?? 16
            return record(UInt8(truncatingIfNeeded: number), count: size)
        }
        var (sent, taken) = (0, 0)
        while taken < 20_000 {
            for _ in 0..<Int.random(in: 0...200, using: &random) {
                guard ends.send(bytes(sent)) != nil else { break }
                sent += 1
            }
            for _ in 0..<Int.random(in: 0...200, using: &random) {
                guard let found = ends.take() else {
                    #expect(taken == sent)
                    break
                }
                guard found == bytes(taken) else {
                    Issue.record("record \(taken) is another")
                    return
                }
                taken += 1
            }
        }
    }

    @Test func `a ring is full at its limit, and rings when half was taken`() throws {
        let ends = try Ends(queueLimit: 10)
        for _ in 0..<10 { #expect(ends.send(record(1)) != nil) }
        #expect(ends.send(record(1)) == nil)
        ends.askForRoom()
        for taken in 1...5 {
            #expect(!isReadable(ends.bell.descriptor))
            #expect(ends.take() != nil)
            #expect(ends.receiver.waitingCount == 10 - taken)
        }
        #expect(isReadable(ends.bell.descriptor))
        #expect(ends.bell.hear())
        #expect(ends.send(record(1)) != nil)
        #expect(ends.waitingCount == 6)
    }

    @Test func `bytes count from the second message on`() throws {
        let ends = try Ends(byteLimit: 1000)
        #expect(ends.send([UInt8](repeating: 0, count: 5000)) != nil)
        #expect(ends.send([0]) == nil)
        #expect(ends.take()?.count == 5000)
        #expect(ends.send([UInt8](repeating: 0, count: 600)) != nil)
        #expect(ends.send([UInt8](repeating: 0, count: 600)) == nil)
        #expect(ends.send([UInt8](repeating: 0, count: 400)) != nil)
    }

    @Test func `a large message that is lost leaves room for others`() throws {
        let ends = try Ends(byteLimit: 1000)
        #expect(try ends.sendLarge(1000, isLost: true))
        #expect(ends.takeMessage() == 0)
        #expect(ends.send(record(2)) != nil)
        #expect(ends.send(record(3)) != nil)
    }

    @Test func `who finds the ring closed has to ring, and who finds it ended has sent nothing`() throws {
        let ends = try Ends()
        #expect(ends.send(record(1)) == .opened)
        #expect(ends.send(record(2)) == .queued)
        ends.receiver.open()
        #expect(!ends.receiver.close())
        #expect(ends.take() == record(1))
        #expect(ends.take() == record(2))
        #expect(ends.take() == nil)
        #expect(ends.receiver.close())
        #expect(ends.send(record(3)) == .opened)
        ends.receiver.open()
        ends.receiver.isEnding = true
        #expect(!ends.receiver.close())
        #expect(ends.take() == record(3))
        #expect(ends.take() == nil)
        #expect(ends.receiver.close())
        #expect(ends.receiver.isEnded)
        #expect(ends.send(record(4)) == .ended)
    }

    @Test func `what the sender has learnt was not sent is in the ring for no later reader`() throws {
        let ends = try Ends()
        for number in 1...3 as ClosedRange<UInt8> { _ = ends.send(record(number)) }
        #expect(ends.take() == record(1))
        ends.receiver.stop()
        for number in 4...6 as ClosedRange<UInt8> { #expect(ends.send(record(number)) == .ended) }
        #expect(try ends.left() == [record(2), record(3)])
        #expect(try !ends.lent.isOver)
        #expect(ends.take() == record(2))
        #expect(ends.take() == record(3))
        #expect(try ends.left() == [])
        #expect(try ends.lent.isOver)
        // An end in an empty ring is one, too.
        let other = try Ends()
        other.receiver.isEnding = true
        other.receiver.open()
        #expect(other.receiver.close())
        #expect(other.send(record(1)) == .ended)
        #expect(try other.lent.isOver)
        #expect(try other.left() == [])
    }

    @Test func `what is left around the end of a ring is read`() throws {
        let ends = try Ends()
        let large = record(1, count: 400_000)
        // The next ones do not fit in front of the end.
        while ends.receiver.place.offset + 2 * large.count < RingMemory.largest {
            guard ends.send(large) != nil, ends.take() != nil else {
                Issue.record("the ring has no room")
                return
            }
        }
        let sent = (0..<6 as Range<UInt8>).map { record($0, count: 300_000 + Int($0)) }
        for record in sent { #expect(ends.send(record) != nil) }
        #expect(ends.take() == sent[0])
        #expect(try ends.left() == Array(sent[1...]))
        #expect(try ends.left() == Array(sent[1...]))
    }

    @Test func `a receiver that writes rubbish into the head ends the ring for the sender`() throws {
        let ends = try Ends()
        _ = ends.send(record(1))
        for word in [UInt64.max, 4, 1 << 40, RingMemory.closed] {
            ends.memory.head.pointee.store(word, ordering: .relaxed)
            #expect(ends.send(record(2)) == .ended)
        }
    }

    @Test func `a record that is shorter than any frame ends the ring`() throws {
        for size in 0..<Wire.headerSize {
            let ends = try Ends()
            _ = ends.send(record(1))
            (ends.memory.records + 24).storeBytes(of: UInt64(size), as: UInt64.self)
            ends.memory.head.pointee.store(UInt64(48) << 2, ordering: .relaxed)
            #expect(ends.take() == record(1))
            #expect(ends.isBroken)
        }
    }

    @Test func `more records than a sender may have waiting end the ring`() throws {
        let ends = try Ends(queueLimit: 3)
        #expect(ends.memory.populate(0..<4096))
        // The records are written before the head moves over all of them.
        for number in 0..<10 { (ends.memory.records + 24 * number).storeBytes(of: 16, as: UInt64.self) }
        ends.memory.head.pointee.store(240 << 2, ordering: .relaxed)
        for _ in 0..<3 { #expect(ends.take() != nil) }
        #expect(ends.isBroken)
        #expect(
            try ends.lent.left(1 << 20, queueLimit: 3).map { ring in
                (0..<9).count { _ in if case .frame = ring.next() { true } else { false } }
            }
                == 3)
    }

    @Test func `the memory of a peak is given back when nothing waits`() throws {
        for isFar in [false, true] {
            let ends = try Ends()
            let piece = [UInt8](repeating: 7, count: 100_000)
            for _ in 0..<200 { #expect(ends.send(piece) != nil) }
            #expect(ends.populated >= 20_000_000)
            #expect(!ends.trim())
            for _ in 0..<200 { #expect(ends.take() == piece) }
            // The next record begins at the ring's begin, or behind the last.
            if !isFar { for _ in 0..<2 { _ = (ends.send(piece), ends.take()) } }
            #expect(ends.trim())
            #expect(ends.populated == RingSender.soft)
            for number in 0..<500 as Range<Int> {
                let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 50_000)
                #expect(ends.send(bytes) != nil)
                #expect(ends.take() == bytes)
            }
        }
    }

    @Test func `a ring of rubbish is read within its bounds, and ends`() throws {
        var random = SplitMix64(seed: drawnSeed())
        for _ in 0..<Scale.count(2_000, long: 200_000) {
            let ends = try RubbishEnds(&random)
            for _ in 0..<50 {
                guard case .record(let record) = ends.receiver.look() else { break }
                let size = ends.memory.size
                #expect(record.bytes.count <= size)
                var sum = 0
                for byte in record.bytes.prefix(100) { sum += Int(byte) }
                ends.receiver.take(record, size: record.bytes.count)
            }
            _ = (ends.receiver.close(), ends.receiver.waitingCount, ends.receiver.sentCount)
        }
    }

    // MARK: Ports

    /// A port, and a right to it in another runtime.
    private func port(
        queueLimit: Int = 1000, byteLimit: Int? = nil, messageLimit: Int = 64 << 20, handler: MachPort.Handler? = nil
    ) throws -> (port: MachPort, right: MachPort.SendRight, runtimes: [PortRuntime]) {
        let runtimes = (0..<2).map { _ in PortRuntime(directory: sandbox.path) }
        let port = try MachPort(
            queueLimit: queueLimit, byteLimit: byteLimit, messageLimit: messageLimit,
            nameServer: runtimes[0].nameServer)
        try runtimes[0].nameServer.register(port, name: "test")
        return (port, try runtimes[1].nameServer.port(forName: "test", before: .patience), runtimes)
    }

    @Test func `messages of all kinds come by a ring, and name the kernel's word for their sender`() throws {
        let (port, right, runtimes) = try port()
        let reply = try MachPort(nameServer: runtimes[1].nameServer)
        try right.send(id: 1, bytes: [1, 2, 3].span.bytes)
        try right.send(MachPort.Message(id: 2, [.bytes([4]), .bytes([]), .port(reply.sendRight)]))
        try right.send(id: 3, bytes: [5].span.bytes, replyPort: reply.sendRight)
        #expect(right.carrier == .sharedMemory)
        try right.send(MachPort.Message(id: 4))
        let first = try port.receive(before: .patience)
        #expect((first.id, first.bytes?.count) == (1, 12 * 2))
        #expect(first.sender == SenderCredentials(pid: getpid(), uid: geteuid(), gid: getegid()))
        let second = try port.receive(before: .patience)
        #expect(second.id == 2)
        #expect(second.components.count == 3)
        let third = try port.receive(before: .patience)
        try third.replyPort?.send(MachPort.Message(id: 5))
        #expect(try reply.receive(before: .patience).id == 5)
        #expect(try port.receive(before: .patience).id == 4)
        #expect(try right.statistics() == .init(received: 4, waiting: 0))
    }

    @Test func `messages that are larger than the ring come in order with the others`() throws {
        let (port, right, runtimes) = try port(messageLimit: 200 << 20)
        let sizes = [10, 20 << 20, 0, 70 << 20, 1000, 17 << 20, 18 << 20, 5]
        let sender = Helper {
            for (number, size) in sizes.enumerated() {
                let bytes = [UInt8](repeating: UInt8(number), count: size)
                try? right.send(id: UInt32(number), bytes: bytes.span.bytes, before: .patience)
            }
        }
        for (number, size) in sizes.enumerated() {
            let message = try port.receive(before: .patience)
            #expect(message.id == UInt32(number))
            #expect(message.bytes?.count == size)
            #expect(message.bytes?.last ?? UInt8(number) == UInt8(number))
        }
        sender.join()
        #expect(right.channel.hasRing)
        withExtendedLifetime(runtimes) {}
    }

    @Test func `each message comes once although the control connection is cut again and again`() throws {
        let (port, right, runtimes) = try port()
        let count = 20_000 as UInt32
        // A few have memory of their own.
        let large = [UInt8](repeating: 7, count: 17 << 20)
        let isOver = Shared(false)
        let cutter = Helper {
            while !isOver.withLock({ $0 }) {
                for connection in runtimes[0].control.watchers(of: port.receiver.id.number) { connection.cut() }
                usleep(200_000)
            }
        }
        let sender = Helper {
            for number in 0..<count {
                let bytes = number % 4000 == 3999 ? large : []
                if let error = portError({ try right.send(id: number, bytes: bytes.span.bytes, before: .patience) }) {
                    Issue.record("message \(number): \(error)")
                    return
                }
            }
        }
        for number in 0..<count {
            let message = try port.receive(before: .patience)
            guard message.id == number, message.bytes?.count == (number % 4000 == 3999 ? large.count : 0) else {
                Issue.record("\(message.id) of \(message.bytes?.count ?? -1) bytes came in place of \(number)")
                port.invalidate()
                break
            }
        }
        isOver.withLock { $0 = true }
        cutter.join()
        sender.join()
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
    }

    @Test func `an idle ring is closed, and the next message opens another`() throws {
        let (port, right, runtimes) = try port()
        for id in 1...3 as ClosedRange<UInt32> {
            try right.send(MachPort.Message(id: id))
            right.channel.closeIfIdle()
            #expect(right.channel.hasRing)
            #expect(try port.receive(before: .patience).id == id)
            #expect(waitUntil { right.channel.closeIfIdle() || !right.channel.hasRing })
            #expect(waitUntil { port.receiver.ringPeers.isEmpty })
        }
        withExtendedLifetime(runtimes) {}
    }

    @Test func `threads, tasks, queues and loops that wait already hear the first ring`() throws {
        for taker in ["thread", "task", "queue", "loop", "descriptor"] {
            let (port, right, runtimes) = try port()
            let taken = Latch()
            var kept: [Any] = []
            switch taker {
            case "thread": kept.append(Helper { if (try? port.receive(before: .patience)) != nil { taken.open() } })
            case "task": Task { if (try? await port.receive(before: .patience)) != nil { taken.open() } }
            case "queue":
                port.setHandler { _ in taken.open() }
                try port.setQueue(.init(label: "ring"))
            case "descriptor":
                port.setHandler { _ in taken.open() }
                let descriptor = try PortDescriptor(port)
                kept.append(
                    Helper {
                        var polled = pollfd(fd: descriptor.fileDescriptor, events: Int16(POLLIN), revents: 0)
                        while taken.wait(until: .now) == false, poll(&polled, 1, 10_000) > 0 {
                            _ = try? descriptor.handle()
                        }
                    })
            default:
                let thread = try RunLoopThread()
                port.setHandler { _ in taken.open() }
                try port.schedule(in: thread.loop)
                kept.append(thread)
            }
            if taker == "thread" || taker == "task" {
                #expect(waitUntil { port.receiver.takers.haveWaiters })
            }
            try right.send(MachPort.Message(id: 1))
            #expect(right.channel.hasRing)
            #expect(taken.wait(until: .patience), "\(taker)")
            withExtendedLifetime((runtimes, kept)) {}
            port.invalidate()
        }
    }

    /// Lets the calls of epoll for a descriptor fail until the closure is called.
    private func spoil(_ descriptor: Int32) -> () -> Void {
        let (kept, other) = (dup(descriptor), open("/dev/null", O_RDONLY | O_CLOEXEC))
        dup2(other, descriptor)
        close(other)
        return {
            dup2(kept, descriptor)
            close(kept)
        }
    }

    @Test func `a descriptor that cannot watch rings keeps the port from them only as long as that`() throws {
        let (port, right, runtimes) = try port()
        let descriptors = try (0..<2).map { _ in try PortDescriptor(port) }
        let restore = spoil(descriptors[1].fileDescriptor)
        let bells = try DescriptorSet()
        #expect(!port.receiver.hear(bells))
        restore()
        #expect(port.receiver.hear(bells))
        withExtendedLifetime((right, runtimes, descriptors)) {}
    }

    @Test func `a port is in a loop with its rings, or not at all`() throws {
        let (port, _, runtimes) = try port()
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        let bells = try DescriptorSet()
        // Epoll watches no descriptor twice.
        let obstacle = ThreadRunLoop.Source1(descriptor: bells.descriptor, duplicates: false) { _ in false }
        try thread.loop.add(obstacle)
        #expect(!port.receiver.hear(bells))
        port.remove(from: thread.loop)
        #expect(port.receiver.hear(bells))
        #expect(portError { try port.schedule(in: thread.loop) } != nil)
        #expect(!port.receiver.takers.areScheduled(in: thread.loop, forMode: .default))
        obstacle.invalidate()
        try port.schedule(in: thread.loop)
        #expect(port.receiver.takers.areScheduled(in: thread.loop, forMode: .default))
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a loop that has ended keeps no port from rings`() throws {
        let (port, right, runtimes) = try port()
        let loop = onThread {
            try? port.schedule(in: .current)
            return ThreadRunLoop.current
        }
        try right.send(MachPort.Message(id: 1))
        #expect(right.channel.hasRing)
        #expect(try port.receive(before: .patience).id == 1)
        withExtendedLifetime((runtimes, loop)) {}
    }

    @Test func `a port that moves to another loop hears its rings there`() throws {
        let (port, right, runtimes) = try port()
        let taken = Shared(0)
        port.setHandler { _ in taken.withLock { $0 += 1 } }
        let threads = [try RunLoopThread(), try RunLoopThread()]
        for round in 1...50 {
            let loop = threads[round % 2].loop
            try port.schedule(in: loop)
            try right.send(MachPort.Message())
            if round % 3 > 0 { #expect(waitUntil { taken.withLock { $0 } == round }) }
            port.remove(from: loop)
            if round % 3 == 0 {
                try port.schedule(in: loop)
                #expect(waitUntil { taken.withLock { $0 } == round })
                port.remove(from: loop)
            }
        }
        withExtendedLifetime((runtimes, threads)) {}
    }

    @Test func `a port ends while peers send without pause`() throws {
        let (port, right, runtimes) = try port()
        let senders = (0..<2).map { _ in Helper { while (try? right.send(MachPort.Message())) != nil {} } }
        for _ in 0..<100 { _ = try port.receive(before: .patience) }
        port.invalidate()
        for sender in senders { sender.join() }
        withExtendedLifetime(runtimes) {}
    }

    /// The kernel may have no memory for the bell. What follows from the sender's end would overtake its last messages.
    @Test func `what waits in a peer's ring is taken, rung or not`() throws {
        let (port, _, runtimes) = try port()
        port.setHandler { _ in }
        let ends = try Ends(peer: .random())
        #expect(port.receiver.intake.add(ends.receiver) { _ in true })
        #expect(ends.send(record(1)) == .opened)
        #expect(port.receiver.takeRing(of: ends.receiver.peer))
        #expect(port.receiver.intake.readRings { $0.hasAnyRecord } == false)
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a record of more than the port takes ends the ring`() throws {
        let (descriptor, memory) = try #require(RingMemory.make())
        let (bell, other) = try #require(Bell.make())
        let receiver = RingReceiver(
            memory, bell, peer: .random(), sender: SenderCredentials(pid: 1, uid: 2, gid: 3), queueLimit: 10,
            messageLimit: 100)
        let view = try #require(RingMemory(descriptor.number))
        var sender = RingSender(view, Bell(other), queueLimit: 10, byteLimit: 0)
        for size in [100, 101] {
            let isReserved = sender.reserve(size, messageSize: size) != nil
            #expect(isReserved)
            _ = sender.publish(size, messageSize: size, sentCount: 0)
        }
        guard case .record(let record) = receiver.look() else {
            Issue.record("no record")
            return
        }
        receiver.take(record, size: 100)
        guard case .broken = receiver.look() else {
            Issue.record("not broken")
            return
        }
    }

    @Test func `memory of another kind than the library makes is none`() throws {
        let pipe = UnsafeMutablePointer<Int32>.allocate(capacity: 2)
        defer { pipe.deallocate() }
        #expect(Glibc.pipe(pipe) == 0)
        let file = open(sandbox.file("file"), O_CREAT | O_RDWR, 0o600)
        ftruncate(file, (1 << 20) + 512)
        for descriptor in [-1, 0, pipe[0], file] { #expect(RingMemory(descriptor).map(\.size) == nil) }
        for descriptor in [pipe[0], pipe[1], file] { close(descriptor) }
    }

    @Test func `tasks and replies send by rings, too`() async throws {
        let runtimes = (0..<2).map { _ in PortRuntime(directory: sandbox.path) }
        let port = try MachPort(nameServer: runtimes[0].nameServer)
        try runtimes[0].nameServer.register(port, name: "test")
        let right = try await runtimes[1].nameServer.port(forName: "test", before: .patience)
        try await right.send(MachPort.Message(id: 1), before: .patience)
        #expect(right.carrier == .sharedMemory)
        let server = try LocalMessagePort(name: "server", nameServer: runtimes[0].nameServer) { _, data in data }
        try server.setQueue(.init(label: "server"))
        let remote = try await RemoteMessagePort(name: "server", nameServer: runtimes[1].nameServer, before: .patience)
        #expect(try await remote.request(id: 1, [7]) == [7])
        #expect(remote.sendRight.carrier == .sharedMemory)
        // The server's ways to the asker's ports for replies.
        let replies = runtimes[0].channels.channels(to: runtimes[1].incarnation)
        #expect(!replies.isEmpty)
        for channel in replies { #expect(channel.hasRing) }
    }

    @Test func `a process that is kept to ZeroMQ sends and gets as before`() throws {
        for isOwner in [false, true] {
            let kept = PortRuntime(directory: sandbox.path, sharedMemory: .never)
            let free = PortRuntime(directory: sandbox.path)
            let (owner, other) = isOwner ? (kept, free) : (free, kept)
            let port = try MachPort(nameServer: owner.nameServer)
            try owner.nameServer.register(port, name: "test")
            let right = try other.nameServer.port(forName: "test", before: .patience)
            try right.send(MachPort.Message(id: 7))
            #expect(try port.receive(before: .patience).id == 7)
            #expect(right.carrier == .zeroMQ)
            #expect(port.sendRight.carrier == .ownProcess)
            port.invalidate()
        }
    }

    @Test(arguments: ["read", "fill", "unblock", "shut"])
    func `a peer that misuses its own bell stops nobody else's`(_ way: String) throws {
        let (port, right, runtimes) = try port()
        let hostile = PortRuntime(directory: sandbox.path)
        let bad = try hostile.nameServer.port(forName: "test", before: .patience)
        try bad.send(MachPort.Message(id: 0))
        try right.send(MachPort.Message(id: 0))
        for _ in 0..<2 { _ = try port.receive(before: .patience) }
        let bell = try #require(bad.channel.state.withLock { $0.ring.bell })
        switch way {
        case "read": _ = bell.hear()
        case "fill": while ringOnce(bell.descriptor) {}
        case "unblock": _ = fcntl(bell.descriptor, F_SETFL, 0)
        default: shutdown(bell.descriptor, Int32(SHUT_RDWR))
        }
        for id in 1...200 as ClosedRange<UInt32> {
            try right.send(MachPort.Message(id: id), before: .patience)
            #expect(try port.receive(before: .patience).id == id)
        }
        withExtendedLifetime((runtimes, hostile)) {}
    }

    // MARK: Hostile peers

    @Test func `a peer that ends leaves no ring, whatever it has announced`() throws {
        let (port, _, runtimes) = try port()
        for isWritten in [false, true] {
            var peers = try (0..<10).map { _ in try HostilePeer(to: port) }
            for peer in peers {
                peer.announce(at: 0)
                peer.cut()
            }
            // The process lives, and goes on writing.
            if isWritten { for peer in peers { peer.announce(at: 24) } } else { peers = [] }
            #expect(
                waitUntil {
                    _ = try? port.receive(before: .distantPast)
                    return port.receiver.ringPeers.isEmpty
                })
        }
        withExtendedLifetime(runtimes) {}
    }

    @Test func `memory that never comes keeps no port from moving`() throws {
        let (port, right, runtimes) = try port()
        let peer = try HostilePeer(to: port)
        peer.announce(at: 0)
        try right.send(MachPort.Message(id: 5))
        let homes = Homes(sandbox)
        let moved = try homes.received(port, in: homes.runtime()).claim(before: .patience)
        #expect(try moved.receive(before: .patience).id == 5)
        withExtendedLifetime((runtimes, peer)) {}
    }

    @Test func `what waits at a port that moves is taken until the deadline, and not longer`() throws {
        let (port, right, runtimes) = try port()
        try right.send(MachPort.Message())
        _ = try port.receive(before: .patience)
        port.receiver.intake.pause()
        for id in 1...100 as ClosedRange<UInt32> { try right.send(MachPort.Message(id: id), before: .patience) }
        #expect(port.receiver.intake.takeAll(isLent: false, until: .distantPast).map(\.header.id) == [1])
        #expect(port.receiver.intake.takeAll(isLent: false, until: .patience).map(\.header.id) == Array(2...100))
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a large message without memory is told as the peer's fault, and once`() throws {
        let target = try Target(sandbox)
        let peer = try HostilePeer(at: target.controlPath, port: target.right.id.number)
        for number in 0..<100 { peer.announce(at: 24 * number) }
        #expect(waitUntil { target.hasLogged("a large message", "is lost", "(pid \(getpid()))") })
        _ = try target.seen()
        #expect(target.log.count { $0.contains("a large message") } == 1)
    }

    // MARK: Processes

    @Test func `what a killed sender has sent comes whole, and once`() throws {
        for round in 0..<Scale.count(3, long: 300) {
            let desk = try Desk(sandbox)
            let child = Child("bytes-for-ever", in: sandbox)
            var next = 0 as UInt32
            func take(before deadline: ContinuousClock.Instant) throws {
                let message = try desk.port.receive(before: deadline)
                guard message.id == next, message.bytes?.count == Int(next) * 7919 % 3000,
                    message.bytes?.allSatisfy({ $0 == UInt8(truncatingIfNeeded: next) }) == true
                else {
                    Issue.record("\(message.id) came in place of \(next), in round \(round)")
                    throw PortError.unavailable(reason: "another message")
                }
                next += 1
            }
            for _ in 0..<(1000 + round * 37 % 500) { try take(before: .patience) }
            child.kill()
            while (try? take(before: .now + .milliseconds(300))) != nil {}
            #expect(next >= 1000)
            desk.port.invalidate()
        }
    }

    @Test func `a stopped sender's messages are taken, and counted without an answer`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let child = Child("bytes", "30", "10", in: sandbox)
        #expect(waitUntil { (try? port.sendRight.statistics().waiting) == 30 })
        child.stop()
        #expect(try port.sendRight.statistics() == .init(received: 0, waiting: 30))
        for _ in 0..<30 { _ = try port.receive(before: .patience) }
        #expect(try port.sendRight.statistics() == .init(received: 30, waiting: 0))
    }
}

private func isReadable(_ descriptor: Int32) -> Bool {
    var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&polled, 1, 0) > 0
}

private func ringOnce(_ descriptor: Int32) -> Bool {
    var byte = 0 as UInt8
    return send(descriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)) == 1
}

/// A receiver whose memory holds what a hostile sender may have written.
private final class RubbishEnds {
    let receiver: RingReceiver
    let memory: RingMemory

    init(_ random: inout SplitMix64) throws {
        let (descriptor, memory) = try #require(RingMemory.make())
        let (bell, _) = try #require(Bell.make())
        self.memory = try #require(RingMemory(descriptor.number))
        receiver = RingReceiver(
            memory, bell, peer: .random(), sender: SenderCredentials(pid: 1, uid: 2, gid: 3), queueLimit: 10)
        receiver.open()
        // Near the begin, with some sizes that fit and kinds that exist.
        for offset in stride(from: 0, to: 1024, by: 8) {
            let kind = UInt64.random(in: 0...3, using: &random)
            let size = [0, 5, 64, 1000, UInt64(memory.size), .max].randomElement(using: &random) ?? 0
            (self.memory.records + offset).storeBytes(of: kind << 32 | size & 0xFFFF_FFFF, as: UInt64.self)
        }
        let head = [8, 64, 1024, 4, UInt64(memory.size), .max >> 3].randomElement(using: &random) ?? 0
        self.memory.head.pointee.store(head << 2, ordering: .releasing)
        self.memory.published.pointee.store(.random(in: 0 ... .max, using: &random), ordering: .relaxed)
        self.memory.sent.pointee.store(.random(in: 0 ... .max, using: &random), ordering: .relaxed)
        self.memory.room.pointee.store(.random(in: 0 ... .max, using: &random), ordering: .relaxed)
    }

    deinit { memory.unmap() }
}
