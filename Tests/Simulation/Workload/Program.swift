@testable import Ports
@testable import RunLoops

/// The program of a simulated process. It sends, asks, takes names and gives them up, until it is killed or told to end.
final class Program: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    let process: Process
    let scenario: Scenario
    private var runtime: PortRuntime?
    private var threads = 0
    private var isEnding = false
    private var inboxes: [MachPort] = []
    private var rights: [PortID: MachPort.SendRight] = [:]
    /// Rights that came in messages.
    private var received: [MachPort.SendRight] = []

    init(_ process: Process, _ scenario: Scenario) { (self.process, self.scenario) = (process, scenario) }

    var promises: Promises { scenario.promises }
    func below(_ bound: Int) -> Int { machine.chance.below(bound) }
    func after(_ milliseconds: Int) -> ContinuousClock.Instant { .now + .milliseconds(milliseconds) }
    func pause(_ milliseconds: Int) { simulatedPause(milliseconds) }

    func start() {
        machine.makeThread(process, "main") { [self] in
            let lanes: PortRuntime.Lanes = scenario.hasLanes(machine.chance.next()) ? .whenPossible : .never
            runtime = PortRuntime(directory: Scenario.directory, lanes: lanes)
            spawn("inbox") { [self] in takeMessages() }
            spawn("server") { [self] in answer() }
            for _ in 0...below(2) { spawn("sender") { [self] in sendMessages() } }
            for _ in 0...below(2) { spawn("asker") { [self] in ask() } }
            if below(3) == 0 { spawn("client") { [self] in askByTasks() } }
            if below(2) == 0 { spawn("typed server") { [self] in serveTyped() } }
            if below(2) == 0 { spawn("typed client") { [self] in askTyped() } }
            if below(3) == 0 { spawn("watcher") { [self] in watchNames() } }
            if below(3) == 0 { spawn("lister") { [self] in listNames() } }
            let lifetime = below(3) == 0 ? UInt64(below(4_000)) * 1_000_000 : .max / 2
            let deadline = machine.now + lifetime
            while !scenario.isClosing, scenario.isSettling || machine.now < deadline { pause(20) }
            end()
        }
    }

    private func spawn(_ name: String, _ body: @escaping () -> Void) {
        threads += 1
        machine.makeThread(process, name) { [self] in
            body()
            // Before the thread has really ended, when it has no baton.
            LoopCore.endCurrent()
            threads -= 1
        }
    }

    var goesOn: Bool { !isEnding }

    /// Nil after an error, which the story tells.
    func attempt<Value>(_ body: () throws -> Value) -> Value? {
        do {
            return try body()
        } catch {
            machine.story.note(machine) { "error: \(error)" }
            return nil
        }
    }

    // MARK: The end

    private func end() {
        isEnding = true
        // Nobody takes from them any more, and senders may wait for room.
        endInboxes()
        if !scenario.waitUntil(60_000, { [self] in threads == 0 }) {
            machine.fail("\(process) does not end: \(threads) of its threads go on")
        }
        // A runtime keeps spare descriptors for its end.
        process.mayFail = false
        endInboxes()
        rights = [:]
        received = []
        runtime = nil
        let own = machine.current
        let isQuiet = scenario.waitUntil(30_000) { [self] in
            machine.threads.allSatisfy { $0.process !== process || $0 === own || $0.name.hasPrefix("tasks") }
        }
        if !isQuiet {
            let names = machine.threads.filter { $0.process === process && $0 !== own }.map(\.name).joined(
                separator: ", ")
            machine.fail("threads of \(process) go on after its runtime's end: \(names)")
        }
        scenario.check(process)
        machine.exit(process)
    }

    private func endInboxes() {
        while let port = inboxes.popLast() {
            promises.ends(port.id)
            port.invalidate()
            promises.ended(port.id)
        }
    }

    // MARK: Messages

    var names: PortNameServer? { runtime?.nameServer }

    private func takeMessages() {
        while goesOn {
            guard let names,
                let port = attempt({
                    try MachPort(
                        queueLimit: below(2) == 0 ? 5 : 1000, byteLimit: below(4) == 0 ? 6_000 : nil, nameServer: names)
                })
            else {
                pause(20)
                continue
            }
            promises.made(port.id, by: process, queueLimit: port.queueLimit) { [weak port] in port?.isValid == true }
            inboxes.append(port)
            let name = scenario.boxName(below(scenario.nameCount))
            var isNamed = register(port, name, names)
            let life = below(4) == 0 ? below(500) : .max
            var taken = 0
            while goesOn, taken < life {
                if let message = try? port.receive(before: after(50)) {
                    check(message, port)
                    taken += 1
                    if below(20) == 0, !scenario.isSettling { pause(below(200)) }
                }
                if !isNamed, below(10) == 0 { isNamed = register(port, name, names) }
            }
            if !goesOn { return }
            if isNamed, below(2) == 0 {
                promises.gaveUp(name, port.id)
                try? names.remove(port, name: name)
                pause(below(100))
            }
            promises.ends(port.id)
            inboxes.removeAll { $0 === port }
            port.invalidate()
            promises.ended(port.id)
        }
    }

    private func register(_ port: MachPort, _ name: String, _ names: PortNameServer) -> Bool {
        let (begin, errors) = (machine.now, machine.faults.count)
        do {
            try names.register(port, name: name)
            promises.took(name, port.id)
            return true
        } catch .nameInUse(_, let holder) {
            // After an error, an owner may seem to be alive.
            if machine.faults.count == errors { promises.refused(name, by: holder.id, begin: begin) }
        } catch {}
        return false
    }

    private func check(_ message: MachPort.Message, _ port: MachPort) {
        guard case .bytes(let bytes)? = message.components.first, bytes.count >= 8 else {
            machine.fail("a message came without its bytes")
        }
        let (line, number) = bytes.withUnsafeBytes {
            ($0.loadUnaligned(as: UInt32.self), $0.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
        }
        if bytes.dropFirst(8).contains(where: { $0 != UInt8(truncatingIfNeeded: number) }) {
            machine.fail("message \(number) came with other bytes")
        }
        promises.received(line, number, at: port.id, from: message.sender?.pid)
        // A right that has travelled is watched, too.
        for case .port(let right) in message.components {
            watch(right)
            received.append(right)
            if received.count > 8 { received.removeFirst() }
        }
    }

    private func watch(_ right: MachPort.SendRight) {
        guard rights[right.id] == nil, right.isValid else { return }
        rights[right.id] = right
        addHandler(right)
    }

    private func addHandler(_ right: MachPort.SendRight) {
        let (watch, promises) = (promises.watching(right.id), Kept(promises))
        right.onInvalidation { promises.value.isTold(watch) }
    }

    /// The time of patient callers, in milliseconds: longer than any fault lasts.
    private static let patience = 600_000

    private func bytes(_ line: UInt32, _ number: UInt32) -> [UInt8] {
        let size = below(8) == 0 ? below(3_000) : below(40)
        var bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 8 + size)
        bytes.withUnsafeMutableBytes {
            $0.storeBytes(of: line, as: UInt32.self)
            $0.storeBytes(of: number, toByteOffset: 4, as: UInt32.self)
        }
        return bytes
    }

    private func findPort() -> MachPort.SendRight? {
        if below(4) == 0, !received.isEmpty { return received[below(received.count)] }
        let name = scenario.boxName(below(scenario.nameCount))
        if below(3) == 0 {
            return attempt { try names?.waitForPort(forName: name, before: after(below(3_000))) } ?? nil
        }
        return attempt { try names?.port(forName: name, before: after(below(3_000))) } ?? nil
    }

    private func sendMessages() {
        while goesOn {
            guard let right = findPort() else {
                pause(30 + below(100))
                continue
            }
            if below(2) == 0 { watch(right) }
            let line = promises.makeLine(to: right.id)
            for _ in 0...below(60) where goesOn {
                let number = promises.begin(line)
                var components: [MachPort.Message.Component] = [.bytes(bytes(line.number, number))]
                if below(20) == 0, let own = inboxes.last { components.append(.port(own.sendRight)) }
                do {
                    let deadline = after(below(10) == 0 ? Self.patience : below(2_000))
                    try right.send(MachPort.Message(id: number, components), before: deadline)
                    promises.accepted(number, of: line, isKept: right.carrier == .lane || right.carrier == .ownProcess)
                } catch {
                    var isLoss = false
                    if case .connectionLost = error { isLoss = true }
                    promises.failed(number, of: line, isLoss: isLoss)
                    if !right.isValid {
                        addHandler(right)
                        break
                    }
                }
                if below(10) == 0 { pause(below(30)) }
                // As without a free descriptor, idle connections are closed.
                if below(80) == 0 { runtime?.channels.connections.makeRoom() }
            }
            pause(below(scenario.isSettling ? 2_000 : 200))
        }
    }

    // MARK: Requests

    private func answer() {
        while goesOn {
            let name = scenario.serverName(below(scenario.nameCount))
            let held = Kept<[(right: ReplyRight, number: UInt32)]>([])
            let queueLimit = below(2) == 0 ? 10 : 1000
            guard let names,
                let thread = try? RunLoopThread(name: "server"),
                let port = try? LocalMessagePort(
                    name: name, nameServer: names, queueLimit: queueLimit,
                    requestHandler: { [self] request in
                        let number = request.message.withBytes { $0.unsafeLoadUnaligned(as: UInt32.self) } ?? 0
                        promises.handling(number)
                        guard let right = request.replyRight else { return }
                        let asker = request.message.received?.replyChannel
                        switch below(10) {
                        // Dropped without a reply.
                        case 0: break
                        case 1, 2: held.value.append((right, number))
                        default:
                            if below(5) == 0 { pause(below(100)) }
                            reply(right, number, asker)
                        }
                    })
            else {
                pause(50 + below(100))
                continue
            }
            let id = port.sendRight.id
            promises.made(id, by: process, queueLimit: queueLimit) { [weak port] in port?.isValid == true }
            promises.took(name, id)
            try? port.schedule(in: thread.loop)
            let life = below(3) == 0 ? below(3_000) : 100_000
            let deadline = machine.now + UInt64(life) * 1_000_000
            while goesOn, machine.now < deadline {
                pause(20)
                while !held.value.isEmpty {
                    let (right, number) = held.value.removeFirst()
                    reply(right, number, nil)
                }
            }
            promises.ends(id)
            if below(2) == 0 {
                port.finish(before: after(2_000))
            } else {
                port.invalidate()
            }
            held.value = []
            thread.stop()
            thread.join()
        }
    }

    private func reply(_ right: ReplyRight, _ number: UInt32, _ asker: SendChannel?) {
        let waits = below(2) == 0
        let isSent =
            waits
            ? (try? right.reply(with: data(number), before: after(500))) != nil
            : (try? right.reply(with: data(number))) != nil
        guard isSent else { return }
        promises.replied(number, isKept: waits && asker?.hasLane == true)
        if below(8) == 0, (try? right.reply(with: data(number))) != nil {
            machine.fail("a right has replied to request \(number) twice")
        }
    }

    private func data(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

    private func ask() {
        while goesOn {
            guard
                let server = try? names.map({
                    try RemoteMessagePort(
                        name: scenario.serverName(below(scenario.nameCount)), nameServer: $0,
                        before: after(below(3_000)))
                })
            else {
                pause(30 + below(100))
                continue
            }
            if below(2) == 0 { watch(server.sendRight) }
            for _ in 0...below(10) where goesOn {
                let (number, timeout) = beginRequest()
                do {
                    promises.answered(number, try server.request(id: 1, data(number), timeout: timeout))
                } catch {
                    end(number, error)
                    if !server.isValid { break }
                }
            }
            pause(below(scenario.isSettling ? 1_000 : 100))
        }
    }

    private func beginRequest() -> (number: UInt32, timeout: Duration) {
        let isPatient = below(8) == 0
        return (
            promises.asking(isPatient: isPatient), .milliseconds(isPatient ? Self.patience : below(4_000))
        )
    }

    private func end(_ number: UInt32, _ error: PortError) {
        let isTimeout: Bool =
            switch error {
            case .receiveTimedOut, .sendTimedOut: true
            default: false
            }
        promises.ended(number, isAnswered: false, isTimeout: isTimeout, "\(error)")
    }

    /// The same by tasks.
    private func askByTasks() {
        while goesOn {
            wait { [self] in
                guard let names,
                    let server = try? await RemoteMessagePort(
                        name: scenario.serverName(below(scenario.nameCount)), nameServer: names,
                        before: after(below(3_000)))
                else { return }
                for _ in 0...below(10) where goesOn {
                    let (number, timeout) = beginRequest()
                    do {
                        promises.answered(number, try await server.request(id: 1, data(number), timeout: timeout))
                    } catch let error as PortError {
                        end(number, error)
                    } catch {
                        machine.fail("a request ended with \(error)")
                    }
                }
            }
            pause(30 + below(100))
        }
    }
}

/// A value that closures change. Only the thread that has the baton does.
final class Kept<Value>: @unchecked Sendable {
    // Sound: see above.
    var value: Value
    init(_ value: Value) { self.value = value }
}

func simulatedPause(_ milliseconds: Int) {
    machine.sleep(UInt64(max(milliseconds, 0)) * 1_000_000)
}
