import Dispatch
import Glibc

@testable import Ports
@testable import RunLoops

// The takers of a port's messages. A taker has stopped when its call returns, so that the next one may follow.

/// A port whose handler loops, queues and foreign loops call.
protocol HandlingPort: AnyObject, Sendable {
    func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode) throws(PortError)
    func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode)
    func setQueue(_ queue: DispatchQueue?) throws(PortError)
    func makeDescriptor() throws(PortError) -> PortDescriptor<Self>
}

extension MachPort: HandlingPort {
    func makeDescriptor() throws(PortError) -> PortDescriptor<MachPort> { try PortDescriptor(self) }
}

extension LocalMessagePort: HandlingPort {
    func makeDescriptor() throws(PortError) -> PortDescriptor<LocalMessagePort> { try PortDescriptor(self) }
}

/// A taker that calls the port's handler.
enum HandlerTaker: CaseIterable {
    case loop, queue, descriptor

    func serve(_ port: some HandlingPort, in program: Program, while goesOn: () -> Bool) {
        switch self {
        case .loop: Self.serveByLoop(port, program, goesOn)
        case .queue: Self.serveByQueue(port, program, goesOn)
        case .descriptor: Self.serveByDescriptor(port, program, goesOn)
        }
    }

    private static func serveByLoop(_ port: some HandlingPort, _ program: Program, _ goesOn: () -> Bool) {
        guard let thread = try? RunLoopThread(name: "loop") else { return program.pause(20) }
        let isScheduled = program.attempt { try port.schedule(in: thread.loop, forMode: .default) } != nil
        while isScheduled, goesOn() { program.pause(20) }
        port.remove(from: thread.loop, forMode: .default)
        thread.stop()
        thread.join()
        if !isScheduled { program.pause(20) }
    }

    private static func serveByQueue(_ port: some HandlingPort, _ program: Program, _ goesOn: () -> Bool) {
        let queue = DispatchQueue(label: "simulated")
        let isSet = program.attempt { try port.setQueue(queue) } != nil
        while isSet, goesOn() { program.pause(20) }
        try? port.setQueue(nil)
        // The queue handles the message in hand.
        let isIdle = Kept(false)
        queue.async { isIdle.value = true }
        _ = machine.wait(until: nil) { isIdle.value }
        if !isSet { program.pause(20) }
    }

    private static func serveByDescriptor(_ port: some HandlingPort, _ program: Program, _ goesOn: () -> Bool) {
        guard let descriptor = program.attempt({ try port.makeDescriptor() }) else { return program.pause(20) }
        while goesOn() {
            guard awaitReadable(descriptor.fileDescriptor) else { continue }
            // After the port's end, the descriptor stays readable.
            if program.attempt({ try descriptor.handle(atMost: 1 + program.below(64)) }) == nil { program.pause(20) }
        }
    }

    fileprivate static func awaitReadable(_ descriptor: Int32) -> Bool {
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return Glibc.poll(&polled, 1, 20) > 0
    }
}

/// A taker of messages.
enum MessageTaker: CaseIterable {
    case thread, task, iteration, descriptor, handler

    typealias Take = (MachPort.Message) -> Void

    func take(from port: MachPort, in program: Program, _ take: @escaping Take, while goesOn: () -> Bool) {
        switch self {
        case .thread:
            while goesOn() {
                if let message = try? port.receive(before: program.after(50)) { take(message) }
            }
        case .task:
            Self.runTask(program, goesOn) { [end = program.after(1_000)] in
                while let message = try? await port.receive(before: end) { take(message) }
            }
        case .iteration: Self.runTask(program, goesOn) { for await message in port.messages { take(message) } }
        case .descriptor:
            guard let descriptor = program.attempt({ try port.makeDescriptor() }) else { return program.pause(20) }
            while goesOn() {
                guard HandlerTaker.awaitReadable(descriptor.fileDescriptor) else { continue }
                do throws(PortError) {
                    while let message = try descriptor.receive() { take(message) }
                } catch {
                    program.pause(20)
                }
            }
        case .handler:
            let take = Kept(take)
            port.setHandler { take.value($0) }
            machine.chance.pick(HandlerTaker.allCases).serve(port, in: program, while: goesOn)
            port.setHandler(nil)
        }
    }

    private static func runTask(_ program: Program, _ goesOn: () -> Bool, _ body: @escaping () async -> Void) {
        let (isDone, body) = (Kept(false), Kept(body))
        let task = Task {
            await body.value()
            isDone.value = true
        }
        while !isDone.value, goesOn() { program.pause(20) }
        task.cancel()
        _ = machine.wait(until: nil) { isDone.value }
    }
}
