import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Much at once, from threads and processes: each message arrives once, in its sender's order.
@Suite(.ownThread) struct LoadTests {
    let sandbox = Sandbox()

    @Test func `eight threads send to one port`() throws {
        try Self.threads(8, each: Scale.count(10_000, long: 1_000_000))
    }

    static func threads(_ count: Int, each: Int) throws {
        let streams = Streams()
        let port = try MachPort { streams.note($0) }
        let thread = try served(port)
        let began = ContinuousClock.now
        let right = port.sendRight
        let senders = (0..<count).map { stream in
            Helper { portError { try Streams.flood(right, stream: UInt32(stream), count: each) } }
        }
        for sender in senders { #expect(sender.value(before: Scale.patience) == .some(nil)) }
        streams.expect(0..<count, each: each)
        #expect(streams.count == count * each)
        Scale.show("\(count) threads: \(rate(count * each, since: began))")
        port.invalidate()
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    private static func rate(_ count: Int, since began: ContinuousClock.Instant) -> String {
        let seconds = began.duration(to: .now) / .seconds(1)
        return "\(count) messages in \((seconds * 10).rounded() / 10) s, \(Int(Double(count) / seconds)) a second"
    }

    @Test func `many processes send to one named port`() throws {
        try Self.processes(Scale.count(6, long: 16), each: Scale.count(3_000, long: 100_000), sandbox)
    }

    static func processes(_ count: Int, each: Int, _ sandbox: Sandbox) throws {
        let streams = Streams()
        let (port, thread) = try named(streams, sandbox)
        let began = ContinuousClock.now
        let senders = (0..<count).map { Child("flood", "\($0)", "\(each)", in: sandbox) }
        for sender in senders { #expect(sender.wait(before: Scale.patience) == 0) }
        streams.expect(0..<count, each: each)
        #expect(streams.count == count * each)
        Scale.show("\(count) processes: \(rate(count * each, since: began)), with their start and end")
        port.invalidate()
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    private static func named(_ streams: Streams, _ sandbox: Sandbox) throws -> (MachPort, RunLoopThread) {
        let port = try MachPort(nameServer: sandbox.names) { streams.note($0) }
        try sandbox.names.register(port, name: "test")
        return (port, try served(port))
    }

    @Test(arguments: [drawnSeed()])
    func `of senders that are killed a prefix arrives, and of the others everything`(_ seed: UInt64) throws {
        try Self.killedSenders(
            Scale.count(6, long: 16), each: Scale.count(3_000, long: 50_000), kills: Scale.count(8, long: 100), seed,
            sandbox)
    }

    static func killedSenders(_ count: Int, each: Int, kills: Int, _ seed: UInt64, _ sandbox: Sandbox) throws {
        var random = SplitMix64(seed: seed)
        let streams = Streams()
        let (port, thread) = try named(streams, sandbox)
        var senders = (0..<count).map { (stream: $0, child: Child("flood", "\($0)", "\(each)", in: sandbox)) }
        var (whole, cut) = ([Int](), [Int]())
        for kill in 0..<kills {
            let underWay = senders.indices.filter { streams.count(of: senders[$0].stream) < each }
            let index = underWay.randomElement(using: &random) ?? 0
            let (stream, child) = senders[index]
            // Somewhere on its way, up to the last message.
            let moment = Int.random(in: streams.count(of: stream)...each, using: &random)
            #expect(waitUntil { streams.count(of: stream) >= moment })
            child.kill()
            let status = child.wait()
            #expect(status == -SIGKILL || status == 0)
            if status == 0 { whole.append(stream) } else { cut.append(stream) }
            senders[index] = (count + kill, Child("flood", "\(count + kill)", "\(each)", in: sandbox))
        }
        for sender in senders { #expect(sender.child.wait(before: Scale.patience) == 0) }
        streams.expect(whole + senders.map(\.stream), each: each)
        #expect(cut.allSatisfy { streams.count(of: $0) <= each })
        Scale.show(
            "\(kills) kills among \(count) senders: \(cut.count) streams cut, none with a gap or a double; "
                + "\(whole.count + count) whole, of \(each) each")
        port.invalidate()
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `while one loop is stuck, the other handles the messages of threads and processes`() throws {
        try Self.stuckLoop(each: Scale.count(2_000, long: 200_000), sandbox)
    }

    static func stuckLoop(each: Int, _ sandbox: Sandbox) throws {
        let streams = Streams()
        let (stuck, release) = (Latch(), Latch())
        let port = try MachPort(nameServer: sandbox.names) { message in
            if message.withBytes({ _ in }) != nil { return streams.note(message) }
            stuck.open()
            _ = release.wait(until: MonotonicInstant(Scale.patience))
        }
        try sandbox.names.register(port, name: "test")
        let loops = try (0..<2).map { _ in try served(port) }
        try port.sendRight.send(MachPort.Message())
        #expect(stuck.wait(until: .patience))
        let began = ContinuousClock.now
        let right = port.sendRight
        let threads = (0..<2 as Range<UInt32>).map { stream in
            Helper { portError { try Streams.flood(right, stream: stream, count: each) } }
        }
        let child = Child("flood", "2", "\(each)", in: sandbox)
        for thread in threads { #expect(thread.value(before: Scale.patience) == .some(nil)) }
        #expect(child.wait(before: Scale.patience) == 0)
        streams.expect(0..<3, each: each)
        Scale.show("one loop of two stuck: \(rate(3 * each, since: began))")
        release.open()
        port.invalidate()
        for loop in loops {
            loop.stop()
            #expect(loop.join(before: .patience))
        }
    }
}
