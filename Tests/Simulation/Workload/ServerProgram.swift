@testable import Ports

// The message ports of a program, which may go to other processes with the requests that wait there.

extension Program {
    func answer() {
        while goesOn {
            let name = scenario.serverName(below(scenario.nameCount))
            let held = Held([])
            guard let names, let server = attempt({ try makeServer(name, names, held) }) else {
                pause(50 + below(100))
                continue
            }
            serve(server, held)
        }
    }

    private func makeServer(
        _ name: String, _ names: PortNameServer, _ held: Held
    ) throws(PortError) -> LocalMessagePort {
        let begin = machine.now
        let server = try LocalMessagePort(name: name, nameServer: names, queueLimit: below(2) == 0 ? 10 : 1000) {
            [self] request in handle(request, held)
        }
        let id = server.sendRight.id
        promises.made(id, by: process, queueLimit: server.port.queueLimit, isServer: true) { [weak server] in
            server?.isValid == true
        }
        promises.names.took(name, id, begin: begin)
        return server
    }

    /// Answers requests until the port's time is over, or the port has gone.
    func serve(_ server: LocalMessagePort, _ held: Held) {
        servers.append(server)
        let life = below(3) == 0 ? below(3_000) : 100_000
        let deadline = machine.now + UInt64(life) * 1_000_000
        while goesOn, machine.now < deadline, server.isValid {
            let end = below(8) == 0 ? machine.now + UInt64(below(1_000)) * 1_000_000 : deadline
            machine.chance.pick(HandlerTaker.allCases).serve(server, in: self) { [self] in
                replyToAll(held)
                return goesOn && machine.now < min(deadline, end) && server.isValid
            }
        }
        servers.removeAll { $0 === server }
        if server.isValid, goesOn, scenario.hasMoves, below(2) == 0, handOver(server, held) { return }
        end(server, held)
    }

    private func end(_ server: LocalMessagePort, _ held: Held) {
        let (id, home) = (server.sendRight.id, server.port.receiver.id)
        promises.ends(id, at: home)
        var isWhole = true
        if below(2) == 0 {
            // “The port gives up its name.”
            promises.names.gaveUpAll(of: id)
            promises.finishes(id)
            let deadline = after(2_000)
            // After the deadline, it waits for no handler.
            isWhole = server.finish(before: deadline) && .now < deadline
        } else {
            server.invalidate()
        }
        held.value = []
        promises.ended(id, at: home, isWhole: isWhole)
    }

    // MARK: Moving

    /// The id of a message that has nothing but a server's right to receive.
    static let handOverID: UInt32 = .max

    /// Gives the server to the owner of a box, as a daemon to its next version.
    /// - Returns: Whether it has gone.
    private func handOver(_ server: LocalMessagePort, _ held: Held) -> Bool {
        guard let right = received.last, right.isValid, let offer = attempt({ try PortOffer.of(server.port).right })
        else { return false }
        promises.offers(server.port.id, by: offer.id)
        promises.handsOver(by: offer.id, to: right.id)
        spawn("last replies") { [self] in
            while goesOn, server.isValid { pause(20) }
            replyToAll(held)
        }
        do throws(PortError) {
            try server.handOver(to: right, id: Self.handOverID, before: after(below(2) == 0 ? 8_000 : below(2_000)))
            if server.isValid { machine.fail("a server was handed over, and is still there") }
            return true
        } catch {
            machine.story.note(machine) { "error: \(error)" }
            // “When it throws, the port has not moved, and the old version goes on.” An exit ends it.
            if !server.isValid, goesOn, !process.isExiting {
                machine.fail("a server was not handed over, and is gone: \(error)")
            }
            return false
        }
    }

    /// Lends a server, and serves it again when it has come back.
    func lend(_ server: LocalMessagePort) throws -> MachPort.ReceiveRight {
        let loan = try MachPort.Loan(server.port)
        takeBackLater(loan, promises.lends(server.port.id)) { [self] back in
            let held = Held([])
            guard let names else { return }
            let ledger = RequestLedger(names.runtime.notices)
            let server = LocalMessagePort(back, ledger, names) { [self] request in handle(request, held) }
            serve(server, held)
        }
        return loan.receiveRight
    }

    /// Claims a server that another process offers, and serves it.
    /// - Returns: False when it has not come.
    func claimServer(
        _ right: MachPort.ReceiveRight, _ offer: PortID, before deadline: ContinuousClock.Instant
    ) -> Bool {
        // The port's handler here would be replaced.
        guard !right.offer.channel.isLocal, let names else { return false }
        let held = Held([])
        guard
            let server = attempt({
                try checkReason { try makeServer(claiming: right, names, held, before: deadline) }
            })
        else {
            return false
        }
        promises.claimed(server.port.id, at: server.port.receiver.id, by: offer) { [weak server] in
            server?.isValid == true
        }
        spawn("claimed server") { [self] in serve(server, held) }
        return true
    }

    private func makeServer(
        claiming right: MachPort.ReceiveRight, _ names: PortNameServer, _ held: Held,
        before deadline: ContinuousClock.Instant
    ) throws -> LocalMessagePort {
        let handler: LocalMessagePort.RequestHandler = { [self] request in handle(request, held) }
        if below(2) == 0 {
            return try LocalMessagePort(claiming: right, nameServer: names, before: deadline, requestHandler: handler)
        }
        return try waitForResult {
            try await LocalMessagePort(claiming: right, nameServer: names, before: deadline, requestHandler: handler)
        }
    }
}
