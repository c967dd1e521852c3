import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing
import ZeroMQ

@testable import Ports

/// Owners that are killed.
@Suite(.ownThread) struct KillTests {
    let sandbox = Sandbox()

    // MARK: Who learns of it

    @Test(arguments: [false, true])
    func `every right learns of its owner's death, every request ends, and no stranger gets anything`(
        _ hasForked: Bool
    ) throws {
        let kills = try Self.killOwners(Scale.count(5, long: 100), haveForked: hasForked, sandbox)
        Scale.show(
            "\(kills.all.count / Self.witnesses) owners\(hasForked ? " with a child that lives on" : "") killed: "
                + "their ends are known after \(kills.summary)")
        if Scale.isMeasured { #expect(kills.percentile(99) < .milliseconds(100)) }
    }

    /// Rights in this process, and one in each of other processes.
    private static let witnesses = 6

    /// - Returns: How long it took to be known, everywhere.
    static func killOwners(_ count: Int, haveForked: Bool, _ sandbox: Sandbox) throws -> Times {
        let desk = try Desk(sandbox)
        let others = (0..<2).map { _ in Child("notice", in: sandbox) }
        let elsewhere = try others.map { _ in try desk.report() }
        var times = Times()
        for _ in 0..<count { times.add(try killOwner(haveForked, desk, elsewhere, sandbox)) }
        withExtendedLifetime(others) {}
        return times
    }

    private static func killOwner(
        _ hasForked: Bool, _ desk: Desk, _ elsewhere: [MachPort.SendRight], _ sandbox: Sandbox
    ) throws -> [Duration] {
        let owner = Child("doomed", hasForked ? "fork" : "", in: sandbox)
        let report = try desk.port.receive(before: .patience)
        let server = try #require(report.replyPort)
        var rights = [server]
        var survivor: pid_t?
        for component in report.components {
            switch component {
            case .port(let right): rights.append(right)
            case .bytes(let bytes): survivor = bytes.withUnsafeBytes { $0.loadUnaligned(as: pid_t.self) }
            case .receiveRight, .descriptor: break
            }
        }
        defer { if let survivor { kill(survivor, SIGKILL) } }
        #expect(rights.count == 4)
        #expect((survivor != nil) == hasForked)

        let told = Shared<[MonotonicInstant]>([])
        for right in rights { right.onInvalidation { told.withLock { $0.append(.now) } } }
        for place in elsewhere { try place.send(MachPort.Message([.port(server)]), before: .patience) }
        let askers = (0..<3).map { _ in
            Helper { errorKind { _ = try RemoteMessagePort(server).request(id: 1, timeout: .seconds(1000)) } }
        }
        // The others are ready, and the requests are in the owner's hands.
        for _ in 0..<elsewhere.count + askers.count {
            #expect([3, 4].contains(try desk.port.receive(before: .patience).id))
        }
        let (isOver, sent) = (Shared(false), Shared(0))
        // From before the death until long after it.
        let (right, deadline) = (rights[1], ContinuousClock.Instant.patience)
        let sender = Helper {
            while !isOver.withLock({ $0 }), !deadline.hasPassed {
                if (try? right.send(MachPort.Message(id: 6), before: .distantPast)) != nil { sent.withLock { $0 += 1 } }
                // The others are to be as quick as they can.
                usleep(100)
            }
        }
        #expect(waitUntil { sent.withLock { $0 } > 0 })

        let nameWaiter = Helper { errorKind { try sandbox.names.waitForEnd(ofName: "doomed", before: .patience) } }

        let path = socketPath(of: right)
        let killed = MonotonicInstant.now
        owner.kill()
        let impostor = try Impostor(path)
        var times: [Duration] = []
        for _ in elsewhere {
            let notice = try desk.port.receive(before: .patience)
            #expect(notice.id == 5)
            let instant = notice.withBytes { MonotonicInstant(nanoseconds: $0.unsafeLoadUnaligned(as: UInt64.self)) }
            times.append(killed.duration(to: instant ?? killed))
        }
        #expect(waitUntil { told.withLock { $0.count } == rights.count })
        times += told.withLock { $0 }.map { killed.duration(to: $0) }
        for asker in askers { #expect(asker.value() == "becameInvalid") }
        #expect(nameWaiter.value() == "none")
        // What is known to have ended has no name any more, though the kernel may not be through with it.
        let heir = try MachPort(nameServer: sandbox.names)
        #expect(portError { try sandbox.names.register(heir, name: "doomed") } == nil)
        #expect(owner.wait() == -SIGKILL)
        for right in rights { #expect(errorKind { try right.send(MachPort.Message(id: 6)) } == "isInvalid") }
        isOver.withLock { $0 = true }
        #expect(sender.value() != nil)
        try expectNothing(at: heir)
        try impostor.expectNothing()
        #expect(told.withLock { $0.count } == rights.count)
        return times
    }

    private static func socketPath(of right: MachPort.SendRight) -> String {
        "\(right.channel.path)/\(right.id.incarnation)/\(right.id.number)"
    }

    /// What comes first is what is sent last.
    private static func expectNothing(at port: MachPort) throws {
        try port.sendRight.send(MachPort.Message(id: 7))
        #expect(try port.receive(before: .patience).id == 7)
    }

    /// Has bound the socket path of somebody else's port.
    private final class Impostor {
        private static let context = Result { () throws(ZeroMQError) in try ZeroMQContext() }
        private let socket: ZeroMQSocket
        private let path: String

        init(_ path: String) throws {
            self.path = path
            socket = try ZeroMQSocket(.pull, in: Self.context.get())
            try socket.bind("ipc://\(path)")
        }

        deinit { unlink(path) }

        func expectNothing() throws {
            let sender = try ZeroMQSocket(.push, in: Self.context.get())
            try sender.set(.linger(0))
            try sender.connect("ipc://\(path)")
            var mark = try ZeroMQFrame(count: 3)
            mark.withUnsafeMutableBytes { $0.copyBytes(from: [1, 2, 3]) }
            #expect(try sender.send(&mark))
            var frame = ZeroMQFrame()
            #expect(waitUntil { (try? socket.receive(&frame)) == true })
            #expect(frame.withUnsafeBytes { Array($0) } == [1, 2, 3])
        }
    }

    @Test(arguments: [drawnSeed()])
    func `whoever finds a port just before its owner's death learns of it, whatever they are at`(
        _ seed: UInt64
    ) throws {
        let found = try Self.findDoomed(Scale.count(8, long: 200), seed, sandbox)
        Scale.show("\(found) rights found in ports whose owners were killed at any moment: none misses the end")
    }

    @discardableResult
    static func findDoomed(_ kills: Int, _ seed: UInt64, _ sandbox: Sandbox) throws -> Int {
        var random = SplitMix64(seed: seed)
        let (isOver, found, told) = (Shared(false), Shared(0), Shared(0))
        let kept = Shared<[MachPort.SendRight]>([])
        let errors = Shared<Set<String>>([])
        let deadline = Scale.patience
        let finders = (0..<3).map { _ in
            Helper {
                while !isOver.withLock({ $0 }), !deadline.hasPassed {
                    let error = errorKind {
                        let right = try sandbox.names.port(forName: "held")
                        kept.withLock { $0.append(right) }
                        right.onInvalidation { told.withLock { $0 += 1 } }
                        found.withLock { $0 += 1 }
                        try right.send(MachPort.Message(), before: .distantPast)
                    }
                    errors.withLock { _ = $0.insert(error) }
                    // Leaves the processor to the processes that come and go.
                    usleep(200)
                }
            }
        }
        for _ in 0..<kills {
            let child = Child("hold", "held", in: sandbox)
            let aim = found.withLock { $0 } + Int.random(in: 1...30, using: &random)
            #expect(waitUntil { found.withLock { $0 } >= aim })
            child.kill()
            #expect(child.wait() == -SIGKILL)
        }
        isOver.withLock { $0 = true }
        for finder in finders { #expect(finder.value() != nil) }
        #expect(waitUntil { told.withLock { $0 } == found.withLock { $0 } })
        #expect(kept.withLock { $0.allSatisfy { !$0.isValid } })
        let unexpected = errors.withLock {
            $0.subtracting(["none", "nameNotFound", "isInvalid", "becameInvalid", "sendTimedOut"])
        }
        #expect(unexpected == [])
        return found.withLock { $0 }
    }

    // MARK: Names

    @Test(arguments: ["register", "first"], [drawnSeed()])
    func `whoever is killed while it registers or gives up names leaves them free, and nothing behind`(
        _ moment: String, _ seed: UInt64
    ) throws {
        let kills = Scale.count(10, long: 500)
        let swept = try Self.killRegistrars(kills, at: moment, seed, sandbox)
        Scale.show(
            "\(kills) killed at “\(moment)”, who left \(swept.names) names, \(swept.folders) folders and "
                + "\(swept.halfWritten) half-written entries, until somebody looked")
    }

    /// - Returns: How much there was to sweep.
    @discardableResult
    static func killRegistrars(
        _ count: Int, at moment: String, _ seed: UInt64, _ sandbox: Sandbox
    ) throws -> (names: Int, folders: Int, halfWritten: Int) {
        var random = SplitMix64(seed: seed)
        let names = (0..<3).map { "churned \($0)" }
        // How long a process takes to come to its first name.
        let began = MonotonicInstant.now
        let first = Child("churn", in: sandbox)
        #expect(waitUntil { !sandbox.files.isEmpty })
        let startUp = began.duration(to: .now)
        var left = (names: 0, folders: 0, halfWritten: 0)
        func look() throws {
            let files = sandbox.files
            left.names += files.count { $0.hasPrefix("names/") }
            left.folders += files.count { Incarnation($0) != nil }
            left.halfWritten += files.count { access("\(sandbox.file($0))/new", F_OK) == 0 }
            for name in names { #expect(errorKind { _ = try sandbox.names.port(forName: name) } == "nameNotFound") }
            #expect(sandbox.files.allSatisfy { Incarnation($0) != nil || rmdir(sandbox.file($0)) == 0 })
            try sandbox.names.sweep()
            #expect(sandbox.files == [])
        }
        first.kill()
        #expect(first.wait() == -SIGKILL)
        try look()
        for _ in 0..<count {
            let child = Child("churn", in: sandbox)
            let share = Double.random(in: moment == "first" ? 0.5...1.2 : 1.2...3, using: &random)
            _ = child.wait(before: .now + startUp * share)
            child.kill()
            #expect(child.wait() == -SIGKILL)
            try look()
        }
        return left
    }
}
