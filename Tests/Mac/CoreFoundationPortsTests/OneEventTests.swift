import CoreFoundation
import OwnThread
import Ports
import RunLoops
import Testing

/// A pass without a sleep serves one event. A port that has no message is no event, as a descriptor that is not readable
/// is none for CFRunLoop.
@Suite(.ownThread) struct OneEventTests {
    @Test func `a port that joins a loop leaves the pass to a message of another port`() throws {
        try compare { loop in
            try loop.add("first")
            _ = try loop.pass()
            loop.send("first")
            try loop.add("second")
            return [try loop.pass(), try loop.pass()]
        }
    }

    @Test func `a port that joins a loop leaves the pass to a timer`() throws {
        try compare { loop in
            try loop.add("first")
            loop.addTimer()
            return [try loop.pass(), try loop.pass()]
        }
    }

    @Test func `a port that joins a loop with a message has its turn`() throws {
        try compare { loop in
            try loop.make("first")
            loop.send("first")
            try loop.schedule("first")
            return [try loop.pass(), try loop.pass()]
        }
    }

    @Test func `a port whose only message a run has handled leaves the next pass to others`() throws {
        try compare { loop in
            try loop.add("first")
            try loop.add("second")
            loop.send("first")
            let first = try loop.runUntilHandled()
            loop.send("second")
            let second = try loop.pass()
            loop.send("first")
            let third = try loop.runUntilHandled()
            loop.addTimer()
            return [first, second, third, try loop.pass()]
        }
    }

    @Test func `a port that gets a handler leaves the pass to a message of another port`() throws {
        let loop = PortLoop()
        try loop.add("first")
        let second = try MachPort()
        try second.schedule(in: .current)
        _ = try (loop.pass(), loop.pass())
        loop.send("first")
        second.setHandler { _ in }
        #expect(try loop.pass() == ["first"])
    }

    @Test func `messages that were sent before somebody handles them are handled`() throws {
        let trace = Trace()
        let port = try MachPort()
        for id: UInt32 in 1...4 { try port.sendRight.send(MachPort.Message(id: id)) }
        // The port has taken the others off its list by then, and its descriptor is silent.
        #expect(try port.receive(before: .distantPast).id == 1)
        try port.schedule(in: .current)
        try ThreadRunLoop.current.runInMode(seconds: 0)
        port.setHandler { trace.names.append("\($0.id)") }
        try ThreadRunLoop.current.runInMode(seconds: 0)
        #expect(trace.names == ["2", "3", "4"])
    }

    private func compare(_ script: (any OneEventLoop) throws -> [[String]]) throws {
        let (ours, theirs) = (try script(PortLoop()), try script(CFLoop()))
        #expect(ours == theirs)
        #expect(theirs.first != [])
    }
}

/// Names of what was served. For one thread.
private final class Trace: @unchecked Sendable {
    // Sound: the loop of the test's thread alone calls what writes.
    var names: [String] = []

    func taken() -> [String] {
        defer { names = [] }
        return names
    }
}

/// The calling thread's loop, and what sends messages.
private protocol OneEventLoop {
    func make(_ name: String) throws
    func schedule(_ name: String) throws
    func send(_ name: String)
    /// Adds a timer that is due.
    func addTimer()
    /// Runs for zero seconds, and returns the names of the served items.
    func pass() throws -> [String]
    /// Runs until a source is handled, and returns the names of the served items.
    func runUntilHandled() throws -> [String]
}

extension OneEventLoop {
    fileprivate func add(_ name: String) throws {
        try make(name)
        try schedule(name)
    }
}

private final class PortLoop: OneEventLoop {
    private let trace = Trace()
    private var ports: [String: MachPort] = [:]

    deinit { for port in ports.values { port.invalidate() } }

    func make(_ name: String) throws { ports[name] = try MachPort { [trace] _ in trace.names.append(name) } }
    func schedule(_ name: String) throws { try ports[name]?.schedule(in: .current) }
    func send(_ name: String) { try? ports[name]?.sendRight.send(MachPort.Message()) }
    func addTimer() { ThreadRunLoop.current.addTimer(after: .zero) { [trace] _ in trace.names.append("timer") } }

    func pass() throws -> [String] {
        try ThreadRunLoop.current.runInMode(seconds: 0)
        return trace.taken()
    }

    func runUntilHandled() throws -> [String] {
        try ThreadRunLoop.current.runInMode(seconds: 20, returnAfterSourceHandled: true)
        return trace.taken()
    }
}

/// An eventfd is the port.
private final class CFLoop: OneEventLoop {
    private final class Event {
        let (name, trace): (String, Trace)
        let event: EventDescriptor

        init(_ name: String, _ trace: Trace) throws {
            (self.name, self.trace) = (name, trace)
            event = try EventDescriptor()
        }
    }

    private let trace = Trace()
    private var events: [String: Event] = [:]
    private var sources: [CFRunLoopSource] = []

    deinit { for source in sources { CFRunLoopSourceInvalidate(source) } }

    func make(_ name: String) throws { events[name] = try Event(name, trace) }

    func schedule(_ name: String) {
        guard let event = events[name] else { return }
        var context = CFRunLoopSourceContext1()
        context.version = 1
        context.info = Unmanaged.passUnretained(event).toOpaque()
        context.getPort = { info in
            info.map { Unmanaged<Event>.fromOpaque($0).takeUnretainedValue().event.descriptor } ?? -1
        }
        context.perform = { info in
            guard let info else { return }
            let event = Unmanaged<Event>.fromOpaque(info).takeUnretainedValue()
            event.trace.names.append(event.name)
        }
        let source = withUnsafeMutablePointer(to: &context) { context in
            context.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) {
                CFRunLoopSourceCreate(nil, 0, $0)
            }
        }
        guard let source else { return }
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode)
        sources.append(source)
    }

    func send(_ name: String) { events[name]?.event.raise() }

    func addTimer() {
        var context = CFRunLoopTimerContext()
        context.info = Unmanaged.passUnretained(trace).toOpaque()
        let timer = CFRunLoopTimerCreate(
            nil, CFAbsoluteTimeGetCurrent(), 0, 0, 0,
            { _, info in
                if let info { Unmanaged<Trace>.fromOpaque(info).takeUnretainedValue().names.append("timer") }
            }, &context)
        CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, kCFRunLoopDefaultMode)
    }

    func pass() -> [String] {
        CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, false)
        return trace.taken()
    }

    func runUntilHandled() -> [String] {
        CFRunLoopRunInMode(kCFRunLoopDefaultMode, 20, true)
        return trace.taken()
    }
}
