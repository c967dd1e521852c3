@testable import Ports

// The parts of a program that take part in moves as a broken process does: they say what they like, and stop in the midst. No
// port may be lost to them, and nobody may wait for them for longer than a move takes.

extension Program {
    /// Claims a port, and never takes it.
    func claimFalsely(_ right: MachPort.ReceiveRight) {
        let offer = right.offer.id
        promises.claims(offer)
        defer { promises.failedToClaim(offer) }
        attempt {
            guard let names else { return }
            let parts = try MachPort(queueLimit: 1000, messageLimit: Wire.largestMessage, nameServer: names)
            defer { parts.invalidate() }
            // Without a port for the answers, the claim says nothing.
            try right.offer.send(.init(.claim, replyPort: below(8) == 0 ? nil : parts.sendRight), before: after(1_000))
            let end = below(3) == 0 ? 12_000 : 300
            while let message = try? parts.receive(before: after(end)) {
                guard let answers = message.replyPort else { continue }
                if below(4) == 0 { break }
                answerFalsely(answers)
            }
        }
    }

    private func answerFalsely(_ answers: MachPort.SendRight) {
        let answer: MachPort.Message =
            switch below(6) {
            case 0: .init(.ready)
            case 1: .init(.ring)
            case 2: .init(failed: .cannotMove(reason: "of no reason"))
            // The port of this number is another one, or none.
            default: .init(.ready, [MachPort.Message.bytes(of: [UInt64(below(100))])])
            }
        answer.post(to: answers)
    }

    /// The right to receive from a port that is not there.
    func offerFalsely() -> MachPort.Message.Component? {
        guard let names else { return nil }
        return attempt {
            let claims = try MachPort(queueLimit: 16, messageLimit: 64 << 10, nameServer: names)
            promises.offersFalsely(claims.id)
            spawn("false owner") { [self] in
                for _ in 0..<4 where goesOn {
                    guard let claim = try? claims.receive(before: after(2_000)), let parts = claim.replyPort else {
                        break
                    }
                    for _ in 0...below(4) { sendFalsely(to: parts, claims) }
                }
                claims.invalidate()
            }
            return .receiveRight(MachPort.ReceiveRight(offer: claims.sendRight))
        }
    }

    private func sendFalsely(to parts: MachPort.SendRight, _ claims: MachPort) {
        let port = below(2) == 0 ? claims.sendRight : rights.values.min { $0.id.file < $1.id.file } ?? claims.sendRight
        let part: MachPort.Message =
            switch below(11) {
            case 0: .init(.begin)
            case 1...3: .init(.begin, [.port(port)], replyPort: claims.sendRight)
            case 4: .init(.message)
            case 5: .init(.message, [.bytes(machine.chance.bytes(below(64)))])
            // Of the descriptors that are missing, one is not there, or all are.
            case 6: .init(.message, [MachPort.Message.bytes(of: [0, 0, 0, 0, 0, UInt64(below(3))]), .bytes([])])
            case 7: .init(.complete)
            case 8: .init(.complete, [MachPort.Message.bytes(of: [0])])
            // Names that are none.
            case 9:
                .init(.complete, [MachPort.Message.bytes(of: [0]), .bytes([255]), .port(port), .bytes([])])
            default: .init(below(2) == 0 ? .taken : .failed)
            }
        part.post(to: parts)
    }

    /// Claims a port that was offered falsely.
    func claimInVain(_ right: MachPort.ReceiveRight) {
        let timeout = below(3_000)
        let (deadline, bound) = (after(timeout), WaitBound(timeout))
        if attempt({ try right.claim(before: deadline) }) != nil {
            machine.fail("a claim has brought a port that is not there")
        }
        bound.check("a claim in vain has ended")
    }
}
