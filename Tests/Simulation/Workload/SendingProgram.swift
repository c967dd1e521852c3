@testable import Ports

// The threads of a program that send messages.

extension Program {
    /// The time of patient callers, in milliseconds: longer than any fault lasts but the sleep of the machine.
    static let patience = 600_000

    private func bytes(_ line: UInt32, _ number: UInt32) -> [UInt8] {
        let size =
            switch below(2_000) {
            // Larger than the quarter of a ring, which is a record's limit: of a small ring, and of one of any size.
            case 0: 17 << 20
            case 1..<30: below(400_000)
            // Beyond the quarter of a small ring.
            case 30..<36 where scenario.hasMoves: 262_000 + below(2_000_000)
            case 36..<270: below(3_000)
            default: below(40)
            }
        var bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 8 + size)
        bytes.withUnsafeMutableBytes {
            $0.storeBytes(of: line, as: UInt32.self)
            $0.storeBytes(of: number, toByteOffset: 4, as: UInt32.self)
        }
        return bytes
    }

    private func findPort() -> MachPort.SendRight? {
        if below(4) == 0, !received.isEmpty { return received[below(received.count)] }
        if below(10) == 0, let wire = scenario.hostileRight {
            return runtime.map { MachPort.SendRight($0.channels.channel(to: wire)) }
        }
        let further = below(4) == 0 ? promises.names.further.randomElement(using: &machine.chance) : nil
        let name = further ?? scenario.boxName(below(scenario.nameCount))
        if below(3) == 0 {
            return attempt { try names?.waitForPort(forName: name, before: after(below(3_000))) } ?? nil
        }
        return attempt { try find(name) } ?? nil
    }

    func find(_ name: String) throws(PortError) -> MachPort.SendRight? {
        guard let names else { return nil }
        return try promises.names.find(name) { () throws(PortError) in
            do throws(PortError) {
                return try names.port(forName: name, before: after(below(3_000)))
            } catch .nameNotFound {
                return nil
            }
        }
    }

    func sendMessages() {
        while goesOn {
            guard let right = findPort() else {
                pause(30 + below(100))
                continue
            }
            if below(2) == 0 { watch(right) }
            sendMessages(to: right)
            pause(below(scenario.isSettling ? 2_000 : 200))
        }
    }

    /// Sends messages until the port has ended, or there were enough.
    func sendMessages(to right: MachPort.SendRight) {
        let line = promises.makeLine(to: right.id)
        for _ in 0...below(60) where goesOn {
            let deadline = after(below(scenario.hasMoves ? 3 : 10) == 0 ? Self.patience : below(2_000))
            let isOpen = sendMessage(of: line, to: right) { bytes, number throws(PortError) in
                try send(bytes, number, of: line, to: right, before: deadline)
            }
            if !isOpen { break }
            if below(10) == 0 { pause(below(30)) }
            // As without a free descriptor, idle connections are closed.
            if below(80) == 0 { runtime?.channels.connections.makeRoom() }
        }
    }

    /// Sends a message if there is room, on a thread that must not wait for others.
    func sendAtOnce(to right: MachPort.SendRight) {
        _ = sendMessage(of: promises.makeLine(to: right.id), to: right) { bytes, number throws(PortError) in
            try right.send(MachPort.Message(id: number, [.bytes(bytes)]), before: .now)
        }
    }

    /// - Returns: False when the port has ended.
    private func sendMessage(
        of line: Promises.Line, to right: MachPort.SendRight, _ send: ([UInt8], UInt32) throws(PortError) -> Void
    ) -> Bool {
        let number = promises.begin(line)
        let bytes = bytes(line.number, number)
        let former = right.carrier
        do throws(PortError) {
            try send(bytes, number)
            if bytes.count > right.messageLimit { machine.fail("a port took a message above its limit") }
            let home = right.channel.latest.id
            promises.accepted(
                number, of: line,
                SentMessage(
                    bytes.count, to: home, of: promises.process(of: home.incarnation), by: right.carrier,
                    formerly: former))
        } catch {
            promises.failed(number, of: line, isLoss: error.isLoss)
            if case .messageTooLarge(_, let size, let limit) = error, size <= limit || size < bytes.count {
                machine.fail("a message of \(bytes.count) bytes was refused as one of \(size), above \(limit)")
            }
            if !right.isValid {
                // A port that is just being handed over may go on at its next owner. “It is kept as long as somebody keeps
                // the right.”
                rights[right.id] = rights[right.id] ?? right
                addHandler(right)
                return false
            }
        }
        return true
    }

    private func send(
        _ bytes: [UInt8], _ number: UInt32, of line: Promises.Line, to right: MachPort.SendRight,
        before deadline: ContinuousClock.Instant
    ) throws(PortError) {
        var components: [MachPort.Message.Component] = [.bytes(bytes)]
        switch below(20) {
        case 0:
            if let own = inboxes.last { components.append(.port(own.sendRight)) }
        case _ where scenario.hasMoves && below(8) == 0:
            if let offer = offerPort() { components.append(offer) }
        case _ where below(15) == 0:
            guard let descriptor = makeDescriptor(line, number) else { break }
            var isSent = false
            defer { checkSent(descriptor, isSent: isSent) }
            let message = MachPort.Message(id: number, components + [.descriptor(descriptor)])
            if below(3) == 0 {
                try sendByTask(message, to: right, before: deadline)
            } else {
                try right.send(message, before: deadline)
            }
            isSent = true
            return
        case 1..<6: return try right.send(id: number, bytes: bytes.span.bytes, before: deadline)
        case 6..<9: return try sendByTask(MachPort.Message(id: number, components), to: right, before: deadline)
        default: break
        }
        try right.send(MachPort.Message(id: number, components), before: deadline)
    }

    private func sendByTask(
        _ message: MachPort.Message, to right: MachPort.SendRight, before deadline: ContinuousClock.Instant
    ) throws(PortError) {
        let outcome = Kept(Result<Void, PortError>.success(()))
        wait {
            do {
                try await right.send(message, before: deadline)
            } catch let error as PortError {
                outcome.value = .failure(error)
            } catch {
                machine.fail("a send ended with \(error)")
            }
        }
        try outcome.value.get()
    }
}

extension SentMessage {
    /// - Parameter former: The way before the send, on which the message may have gone.
    fileprivate init(
        _ size: Int, to home: PortID, of process: Process?, by carrier: MachPort.SendRight.Carrier?,
        formerly former: MachPort.SendRight.Carrier?
    ) {
        let way: Way =
            switch (carrier, former) {
            case (.ownProcess, _), (.sharedMemory, .ownProcess): .ownQueue
            case (.sharedMemory, .zeroMQ): .zeroMQ
            case (.sharedMemory, _): .ring
            default: .zeroMQ
            }
        self.init(
            way: way, size: size, home: home, process: process,
            isKept: carrier == .sharedMemory || carrier == .ownProcess)
    }
}

extension PortError {
    fileprivate var isLoss: Bool { if case .connectionLost = self { true } else { false } }
}
