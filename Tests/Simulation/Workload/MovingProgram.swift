@testable import Ports

// The parts of a program that give their ports to others, and take those of others.

extension Program {
    /// The right to receive from one of the program's ports, for a message.
    func offerPort() -> MachPort.Message.Component? {
        guard scenario.hasMoves, below(4) == 0, !served.isEmpty else { return nil }
        let port = served[below(served.count)]
        return attempt {
            let right = try below(2) == 0 ? lend(port) : MachPort.ReceiveRight(port)
            promises.offers(port.id, by: right.offer.id)
            // Perhaps in the midst of the move.
            if below(6) == 0 {
                spawn("ender") { [self] in
                    pause(below(150))
                    end(port)
                }
            }
            return .receiveRight(right)
        }
    }

    /// Lends a port, and serves it again when it has come back.
    private func lend(_ port: MachPort) throws -> MachPort.ReceiveRight {
        let loan = try MachPort.Loan(port)
        promises.lends(port.id)
        spawn("lender") { [self] in
            defer { promises.endsLoan(port.id) }
            // A port that nobody has claimed comes back at once.
            pause(below(1_000))
            while goesOn {
                do {
                    let back = try loan.takeBack(before: after(below(300)))
                    guard back === loan.standby else { return }
                    promises.cameBack(back.id) { [weak back] in back?.isValid == true }
                    inboxes.append(back)
                    serve(back, until: below(4) == 0 ? below(500) : .max)
                    return end(back)
                } catch {
                    guard let error = error as? PortError, case .receiveTimedOut = error else { return }
                }
            }
        }
        return loan.receiveRight
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
        promises.claims(offer)
        let deadline = below(3) == 0 ? after(below(below(2) == 0 ? 30 : 3_000)) : after(10_000)
        guard let port = attempt({ try claim(right, deadline) }) else { return promises.failedToClaim(offer) }
        // A program may get its own port, which it serves already.
        if right.offer.channel.isLocal { return promises.failedToClaim(offer) }
        promises.claimed(port.id, by: offer) { [weak port] in port?.isValid == true }
        inboxes.append(port)
        spawn("claimed") { [self] in
            serve(port, until: below(4) == 0 ? below(500) : .max)
            end(port)
        }
    }

    private func claim(_ right: MachPort.ReceiveRight, _ deadline: ContinuousClock.Instant) throws -> MachPort {
        if below(2) == 0 { return try right.claim(before: deadline) }
        let outcome = Kept<Result<MachPort, any Error>?>(nil)
        wait {
            do {
                outcome.value = .success(try await right.claim(before: deadline))
            } catch {
                outcome.value = .failure(error)
            }
        }
        guard let outcome = outcome.value else { machine.fail("a claim has not ended") }
        return try outcome.get()
    }
}
