import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Ports that end while much goes on.
@Suite(.ownThread) struct EndingTests {
    let sandbox = Sandbox()

    @Test func `ports end in every order, from every thread, while messages arrive, and leave nothing behind`() {
        Self.orders(Scale.count(150, long: 20_000), sandbox)
    }

    /// In a process of its own, where what is left can be counted.
    static func orders(_ rounds: Int, _ sandbox: Sandbox) {
        let seed = drawnSeed()
        let child = Child("orders", "\(rounds)", "\(seed)", in: sandbox)
        #expect(child.wait(before: .now + .seconds(1200)) == 0, "seed \(seed)")
        Scale.show("\(rounds) ports ended in one order or another: no message after the end, nothing left")
    }

    @Test func `a port may end while processes send to it`() throws {
        try Self.endPorts(Scale.count(3, long: 50), sandbox)
    }

    static func endPorts(_ rounds: Int, _ sandbox: Sandbox) throws {
        for round in 0..<rounds {
            let (streams, isOver, late) = (Streams(), Shared(false), Shared(0))
            var port: MachPort? = try MachPort(queueLimit: 50, nameServer: sandbox.names) { message in
                if isOver.withLock({ $0 }) { late.withLock { $0 += 1 } }
                streams.note(message)
            }
            port?.onInvalidation { isOver.withLock { $0 = true } }
            try port.map { try sandbox.names.register($0, name: "test") }
            let thread = try port.map(served)
            let children = (0..<3).map { Child("flood", "\($0)", in: sandbox) }
            #expect(waitUntil { (0..<3).allSatisfy { streams.count(of: $0) > 50 } })
            // Nobody but the loop keeps it, in some rounds.
            switch round % 3 {
            case 0:
                port?.invalidate()
                thread?.stop()
            case 1:
                port = nil
                thread?.stop()
            default:
                thread?.stop()
                port?.invalidate()
            }
            for child in children { #expect(child.wait() == 0) }
            streams.expect([], each: 0)
            #expect(late.withLock { $0 } == 0)
            #expect(try sandbox.names.names() == [])
        }
    }

    // MARK: Askers

    @Test func `askers that are slow or dead delay no other asker`() throws {
        let (before, meanwhile) = try Self.slowAskers(
            Scale.count(2, long: 8), requests: Scale.count(100, long: 5_000), sandbox)
        Scale.show("requests while nobody else asks: \(before.summary)")
        Scale.show("requests beside stopped and killed askers: \(meanwhile.summary)")
        if Scale.isMeasured { #expect(meanwhile.percentile(50) < before.percentile(50) * 5) }
    }

    static func slowAskers(
        _ count: Int, requests: Int, _ sandbox: Sandbox
    ) throws -> (before: Times, meanwhile: Times) {
        let desk = try Desk(sandbox)
        // It logs each reply that it cannot send.
        let silence = ["/bin/sh", "-c", #"exec "$0" "$@" 2>/dev/null"#]
        let server = Child("echo", "asked", in: sandbox, wrapper: silence)
        let remote = RemoteMessagePort(try desk.report())
        func ask() throws -> Times {
            var times = Times()
            for number in 0..<requests {
                let data = withUnsafeBytes(of: number) { Array($0) }
                let began = ContinuousClock.now
                #expect(try remote.request(id: 1, data, timeout: .seconds(20)) == data)
                times.add(began.duration(to: .now))
            }
            return times
        }
        let before = try ask()
        let askers = (0..<2 * count).map { _ in Child("nag", in: sandbox) }
        for _ in askers { #expect(try desk.port.receive(before: .patience).id == 1) }
        // In the middle of their requests: half of them go on some day.
        for (index, asker) in askers.enumerated() { asker.signal(index % 2 == 0 ? SIGSTOP : SIGKILL) }
        let meanwhile = try ask()
        for asker in askers { asker.signal(SIGKILL) }
        withExtendedLifetime(server) {}
        return (before, meanwhile)
    }

    @Test func `a port whose askers are stopped ends before their replies could leave`() throws {
        let sandbox = Sandbox(sharedMemory: .never)
        let pids = Shared<[pid_t]>([])
        let port = try LocalMessagePort(name: "test", nameServer: sandbox.names) { _, data in
            guard let pid = data?.withUnsafeBytes({ $0.loadUnaligned(as: pid_t.self) }) else { return nil }
            Child.stop(pid)
            pids.withLock { $0.append(pid) }
            return data
        }
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        let askers = (0..<2).map { _ in Child("ask", in: sandbox) }
        #expect(waitUntil { pids.withLock { $0.count } == 2 })
        let (ledger, begin) = (port.ledger, MonotonicInstant.now)
        #expect(port.finish(before: .patience))
        // A reply is given up after ten seconds: none was, yet, unless the machine is very busy.
        #expect(!ledger.isEmpty || (begin + .seconds(9)).hasPassed)
        for asker in askers { asker.kill() }
        thread.stop()
    }
}
