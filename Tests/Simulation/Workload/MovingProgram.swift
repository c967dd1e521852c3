@testable import Ports

// The parts of a program that give their ports to others, and take those of others.

extension Program {
    /// The right to receive from one of the program's ports, for a message.
    func offerPort() -> MachPort.Message.Component? {
        guard scenario.hasMoves, below(4) == 0 else { return nil }
        if !scenario.isSettling, below(20) == 0 { return offerFalsely() }
        if below(3) == 0, !servers.isEmpty { return offerServer(servers[below(servers.count)]) }
        guard !served.isEmpty else { return nil }
        let port = served[below(served.count)]
        return attempt {
            let right = try below(2) == 0 ? lend(port) : MachPort.ReceiveRight(port)
            promises.offers(port.id, by: right.offer.id)
            // Perhaps in the midst of the move.
            if below(6) == 0 {
                spawn("ender") { [self] in
                    pause(below(below(2) == 0 ? 10 : 150))
                    end(port)
                }
            }
            return .receiveRight(right)
        }
    }

    private func offerServer(_ server: LocalMessagePort) -> MachPort.Message.Component? {
        attempt {
            let right = try below(2) == 0 ? lend(server) : MachPort.ReceiveRight(server.port)
            promises.offers(server.port.id, by: right.offer.id)
            return .receiveRight(right)
        }
    }

    /// Lends a port, and serves it again when it has come back.
    private func lend(_ port: MachPort) throws -> MachPort.ReceiveRight {
        let loan = try MachPort.Loan(port)
        takeBackLater(loan, promises.lends(port.id)) { [self] back in
            inboxes.append(back)
            serve(back, until: below(4) == 0 ? below(500) : .max)
            end(back)
        }
        return loan.receiveRight
    }

    /// Waits on a thread of its own for a port that was lent.
    /// - Parameter number: The number of the loan.
    func takeBackLater(_ loan: MachPort.Loan, _ number: Int, _ serve: @escaping (MachPort) -> Void) {
        let (id, serve) = (loan.standby.id, Kept(serve))
        spawn("lender") { [self] in
            defer { promises.endsLoan(id, number) }
            // A port that nobody has claimed comes back at once.
            pause(below(1_000))
            while goesOn {
                do {
                    let back = try loan.takeBack(before: after(below(300)))
                    guard back === loan.standby else { return }
                    promises.cameBack(back.id, at: back.receiver.id) { [weak back] in back?.isValid == true }
                    return serve.value(back)
                } catch {
                    guard let error = error as? PortError, case .receiveTimedOut = error else { return }
                }
            }
        }
    }

    func offerCame(_ right: MachPort.ReceiveRight) {
        guard goesOn else { return }
        offers.append(right)
        if offers.count > 4 { offers.removeFirst() }
    }

    /// Claims the ports that others offer, and serves them.
    func claimPorts() {
        while goesOn {
            if offers.isEmpty {
                pause(20 + below(50))
                continue
            }
            claim(offers.removeFirst())
        }
    }

    private func claim(_ right: MachPort.ReceiveRight) {
        let offer = right.offer.id
        if promises.isFalse(offer) { return claimInVain(right) }
        if !scenario.isSettling, !right.offer.channel.isLocal, below(15) == 0 { return claimFalsely(right) }
        promises.claims(offer)
        let timeout = below(3) == 0 ? below(below(2) == 0 ? 30 : 3_000) : 10_000
        let (deadline, bound) = (after(timeout), WaitBound(timeout))
        if promises.isServer(offer) {
            if !claimServer(right, offer, before: deadline) { promises.failedToClaim(offer) }
            return bound.check("a claim has ended")
        }
        let claimed = attempt { try checkReason { try claim(right, deadline) } }
        bound.check("a claim has ended")
        guard let port = claimed else { return promises.failedToClaim(offer) }
        // A program may get its own port, which it serves already, and which it lends no more.
        if right.offer.channel.isLocal {
            promises.endsLoan(port.id)
            promises.claimedOwn()
            return promises.failedToClaim(offer)
        }
        promises.claimed(port.id, at: port.receiver.id, by: offer) { [weak port] in port?.isValid == true }
        inboxes.append(port)
        spawn("claimed") { [self] in
            // Borrowers give ports up in the midst of their messages.
            serve(port, until: below(2) == 0 ? below(below(2) == 0 ? 20 : 500) : .max)
            end(port)
        }
    }

    /// No sender delays a move by more than three seconds, and a hostile one gets no more time to send memory.
    func checkReason<Value>(_ claim: () throws -> Value) throws -> Value {
        let lost = machine.lostTime
        do {
            return try claim()
        } catch PortError.cannotMove(let reason) {
            let isSteady = machine.lostTime == lost && !scenario.hasHostile
            if isSteady && reason.contains("senders do not answer") || reason.contains("no memory for its messages") {
                machine.fail("a claim fails: \(reason)")
            }
            throw PortError.cannotMove(reason: reason)
        }
    }

    private func claim(_ right: MachPort.ReceiveRight, _ deadline: ContinuousClock.Instant) throws -> MachPort {
        if below(2) == 0 { return try right.claim(before: deadline) }
        return try waitForResult { try await right.claim(before: deadline) }
    }

    func waitForResult<Value>(of body: @escaping @Sendable () async throws -> Value) throws -> Value {
        let outcome = Kept<Result<Value, any Error>?>(nil)
        wait {
            do {
                outcome.value = .success(try await body())
            } catch {
                outcome.value = .failure(error)
            }
        }
        guard let outcome = outcome.value else { machine.fail("a call has not ended") }
        return try outcome.get()
    }
}
