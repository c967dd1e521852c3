@testable import Ports

// The requests of a program, and its answers to those of others.

extension Program {
    /// The requests whose replies wait.
    typealias Held = Kept<[(right: ReplyRight, number: UInt32)]>

    // MARK: Answering

    func handle(_ request: MessagePortRequest, _ held: Held) {
        if scenario.isHostile(request.message.sender?.pid) { return }
        let number = request.message.withBytes { $0.unsafeLoadUnaligned(as: UInt32.self) } ?? 0
        promises.requests.handling(number)
        guard let right = request.replyRight else { return }
        if below(4) == 0 { right.onCancel { [self] in promises.requests.isCancelled(number) } }
        let asker = request.message.received?.replyChannel
        switch below(12) {
        // Dropped without a reply.
        case 0: break
        case 1, 2: held.value.append((right, number))
        case 3:
            promises.requests.failing(number)
            try? right.fail(with: RequestFailure("\(number)"))
        default:
            if below(5) == 0 { pause(below(100)) }
            reply(right, number, asker)
        }
    }

    func replyToAll(_ held: Held) {
        while !held.value.isEmpty {
            let (right, number) = held.value.removeFirst()
            if right.isCancelled { promises.requests.isCancelled(number) }
            reply(right, number, nil)
        }
    }

    private func reply(_ right: ReplyRight, _ number: UInt32, _ asker: SendChannel?) {
        let waits = below(2) == 0
        // Half the time of a posted reply, because a short sleep of the machine counts.
        let end = machine.timeAwake + 5_000_000_000
        let bytes = data(number, below(4) == 0 ? below(5_000) : 0)
        do throws(PortError) {
            if waits { try right.reply(with: bytes, before: after(500)) } else { try right.reply(with: bytes) }
        } catch {
            if case .messageTooLarge = error { promises.requests.refusedReply(to: number) }
            return
        }
        let mayWait = !waits && asker?.posted.withLock { $0.count } != 0
        promises.requests.replied(
            number, isKept: waits && asker?.hasRing == true, waitsUntil: mayWait ? end : nil)
        if below(8) == 0, (try? right.reply(with: data(number))) != nil {
            machine.fail("a right has replied to request \(number) twice")
        }
    }

    private func data(_ number: UInt32, _ more: Int = 0) -> [UInt8] {
        withUnsafeBytes(of: number) { Array($0) } + [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: more)
    }

    // MARK: Asking

    func ask() {
        while goesOn {
            let name = scenario.serverName(below(scenario.nameCount))
            if let names, below(4) == 0 {
                let server = NamedMessagePort(name, nameServer: names)
                for _ in 0...below(10) where goesOn {
                    // A patient one would wait for the name, too.
                    _ = ask(nil, mayBePatient: false) { data, timeout throws(PortError) in
                        try server.request(id: 1, data, timeout: timeout)
                    }
                }
            } else if let server = findServer(name) {
                if below(2) == 0 { watch(server.sendRight) }
                for _ in 0...below(10) where goesOn {
                    let isAnswered = ask(server.sendRight.id) { data, timeout throws(PortError) in
                        try server.request(id: 1, data, timeout: timeout)
                    }
                    if !isAnswered, !server.isValid { break }
                }
            } else {
                pause(30 + below(100))
                continue
            }
            pause(below(scenario.isSettling ? 1_000 : 100))
        }
    }

    private func findServer(_ name: String) -> RemoteMessagePort? {
        guard let names else { return nil }
        return try? RemoteMessagePort(name: name, nameServer: names, before: after(below(3_000)))
    }

    private func ask(
        _ port: PortID?, mayBePatient: Bool = true, _ request: ([UInt8], Duration) throws(PortError) -> [UInt8]?
    ) -> Bool {
        let (number, timeout) = beginRequest(port, mayBePatient)
        do throws(PortError) {
            promises.requests.answered(number, try request(data(number), timeout))
            return true
        } catch {
            promises.requests.ended(number, error, promises)
            return false
        }
    }

    private func beginRequest(_ port: PortID?, _ mayBePatient: Bool = true) -> (number: UInt32, timeout: Duration) {
        let isPatient = mayBePatient && below(scenario.hasMoves ? 3 : 8) == 0
        let timeout = isPatient ? Self.patience : below(4_000)
        return (promises.requests.asking(port, timeout: timeout, isPatient: isPatient), .milliseconds(timeout))
    }

    /// The same by tasks.
    func askByTasks() {
        while goesOn {
            wait { [self] in
                guard let names,
                    let server = try? await RemoteMessagePort(
                        name: scenario.serverName(below(scenario.nameCount)), nameServer: names,
                        before: after(below(3_000)))
                else { return }
                for _ in 0...below(10) where goesOn {
                    let (number, timeout) = beginRequest(server.sendRight.id)
                    do {
                        promises.requests.answered(
                            number, try await server.request(id: 1, data(number), timeout: timeout))
                    } catch let error as PortError {
                        promises.requests.ended(number, error, promises)
                    } catch {
                        machine.fail("a request ended with \(error)")
                    }
                }
            }
            pause(30 + below(100))
        }
    }
}
