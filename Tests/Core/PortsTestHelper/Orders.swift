import Dispatch
import Glibc
import Ports
import RunLoops
import Synchronization
import TestSupport

/// Ends ports in every order that chance makes, from every thread, while messages arrive; and makes sure that nothing
/// is handled after the end, and nothing left behind at last.
func endInEveryOrder(rounds: Int, seed: UInt64) throws -> Never {
    alarm(1200)
    var random = SplitMix64(seed: seed)
    for _ in 0..<20 { try endOnePort(&random) }
    let before = (heap: heapUse(), descriptors: openDescriptors())
    for _ in 0..<rounds { try endOnePort(&random) }
    // The last sockets are closed by libzmq's own thread.
    let isFlat = waitUntil {
        openDescriptors() <= before.descriptors + 4 && heapUse() <= before.heap + 256 << 10
    }
    if !isFlat { fail("\(openDescriptors()) descriptors, \(heapUse()) bytes; before \(before)", status: 73) }
    exit(0)
}

/// What has happened to one port.
private final class Story: Sendable {
    let port = Mutex<MachPort?>(nil)
    let isOver = Atomic(false)
    let ends = Atomic(0)
    let late = Atomic(0)
    let handled = Atomic(0)

    func end() {
        ends.add(1, ordering: .relaxed)
        isOver.store(true, ordering: .releasing)
    }

    func handle(_ message: MachPort.Message) {
        if isOver.load(ordering: .acquiring) { late.add(1, ordering: .relaxed) }
        let count = handled.add(1, ordering: .relaxed).newValue
        if message.id == 0 {
            // The end waits for the message in hand, which takes a while now and then.
            if count % 4 == 0 { usleep(50) }
            if isOver.load(ordering: .acquiring) { late.add(1, ordering: .relaxed) }
        }
        // Some messages end their port.
        if message.id == 1 { kept?.invalidate() }
        if message.id == 2 { letGo() }
    }

    /// Let go of by the caller, not under the lock.
    var kept: MachPort? { port.withLock { $0 } }

    func letGo() {
        let last = port.withLock { port in
            defer { port = nil }
            return port
        }
        withExtendedLifetime(last) {}
    }
}

private func endOnePort(_ random: inout SplitMix64) throws {
    let story = Story()
    let made = try MachPort(queueLimit: 20) { story.handle($0) }
    made.onInvalidation { story.end() }
    story.port.withLock { $0 = made }
    let right = made.sendRight
    let loops = try (0..<Int.random(in: 2...3, using: &random)).map { _ in try RunLoopThread() }
    for thread in loops.dropFirst() { try made.schedule(in: thread.loop) }
    if Int.random(in: 0..<4, using: &random) == 0 { try made.setQueue(DispatchQueue(label: "ends")) }
    try run(story, right, loops, Port(port: made), &random)
}

/// Known, but not kept.
private final class Port: Sendable {
    weak let port: MachPort?
    init(port: MachPort) { self.port = port }
}

/// The caller's reference is gone by now.
private func run(
    _ story: Story, _ right: MachPort.SendRight, _ loops: [RunLoopThread], _ last: Port,
    _ random: inout SplitMix64
) throws {
    let senders = try (0..<2).map { _ in
        try RunLoopThread { _ in
            while (try? right.send(MachPort.Message(), before: .now + .seconds(30))) != nil {}
        }
    }
    let aim = Int.random(in: 0...30, using: &random)
    waitUntil { story.handled.load(ordering: .relaxed) >= aim || !right.isValid }
    let acts: [@Sendable () -> Void] = [
        { story.kept?.invalidate() },
        { story.letGo() },
        { for thread in loops { thread.stop() } },
        { try? right.send(MachPort.Message(id: 1), before: .now + .milliseconds(20)) },
        { try? right.send(MachPort.Message(id: 2), before: .now + .milliseconds(20)) },
        { try? loops[1].loop.perform { story.kept?.invalidate() } },
        { if let port = story.kept { port.remove(from: loops[1].loop) } },
        { if let port = story.kept { try? port.schedule(in: loops[0].loop) } },
        { story.kept?.setHandler(nil) },
        { try? story.kept?.setQueue(nil) },
        { _ = try? story.kept?.receive(before: .now + .milliseconds(1)) },
    ]
    let chosen = acts.shuffled(using: &random).prefix(Int.random(in: 1...6, using: &random))
    if Bool.random(using: &random) {
        let threads = try chosen.map { act in try RunLoopThread { _ in act() } }
        end(threads, "an act")
    } else {
        for act in chosen { act() }
    }
    end(loops, "a loop")
    // If it is not over yet, this is the end: a queue may have it still.
    story.letGo()
    last.port?.invalidate()
    guard waitUntil({ story.ends.load(ordering: .relaxed) > 0 }) else { fail("it does not end") }
    end(senders, "a sender")
    let (ends, late) = (story.ends.load(ordering: .relaxed), story.late.load(ordering: .relaxed))
    guard ends == 1, late == 0 else { fail("\(ends) ends, \(late) messages after the end", status: 72) }
}

private func end(_ threads: [RunLoopThread], _ what: String) {
    for thread in threads { thread.stop() }
    for thread in threads where !thread.join(before: .now + .seconds(20)) { fail("\(what) hangs") }
}
