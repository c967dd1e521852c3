import Glibc

@testable import Ports

// The ports of a program that take messages.

extension Program {
    func takeMessages() {
        while goesOn {
            guard let names, let port = attempt({ try makePort(names) }) else {
                pause(20)
                continue
            }
            inboxes.append(port)
            let name = scenario.boxName(below(scenario.nameCount))
            var isNamed = register(port, name, names)
            if scenario.hasMoves, below(3) == 0 { registerFurther(port, names) }
            serve(port, until: below(4) == 0 ? below(500) : .max) { [self] looks in
                // As often as a thread that waits for messages looks.
                if !isNamed, looks % 10 == 0 { isNamed = register(port, name, names) }
            }
            if isNamed, goesOn, port.isValid, below(2) == 0 {
                promises.names.gaveUp(name, port.id)
                try? names.remove(port, name: name)
                pause(below(100))
            }
            end(port)
        }
    }

    /// Gives the port further names, which nobody else wants.
    private func registerFurther(_ port: MachPort, _ names: PortNameServer) {
        for number in 0...below(12) {
            let name = "further \(port.id.file) \(number)"
            if register(port, name, names) { promises.names.further.append(name) }
            if promises.names.further.count > 100 { promises.names.further.removeFirst() }
        }
    }

    /// Takes messages, until the port has moved or there were enough.
    func serve(_ port: MachPort, until life: Int, look: @escaping (Int) -> Void = { _ in }) {
        served.append(port)
        defer { served.removeAll { $0 === port } }
        var taken = 0
        while goesOn, port.isValid, taken < life {
            let end = below(8) == 0 ? machine.now + UInt64(below(1_000)) * 1_000_000 : .max
            var looks = 0
            let taker = machine.chance.pick(MessageTaker.allCases)
            taker.take(from: port, in: self) { [self] message in
                check(message, port)
                taken += 1
                if below(20) == 0, !scenario.isSettling { pause(below(200)) }
            } while: { [self] in
                looks += 1
                look(looks)
                return goesOn && port.isValid && taken < life && machine.now < end
            }
        }
    }

    /// The port may have come with names from another process.
    private func giveUpNames(of port: MachPort) {
        guard let names else { return }
        for name in promises.names.of(port.id) {
            let errors = machine.faults.count
            promises.names.gaveUp(name, port.id)
            guard (try? names.remove(port, name: name)) != nil, port.isValid else { continue }
            let found = try? names.port(forName: name)
            if found?.id == port.id, machine.faults.count == errors {
                machine.fail("\(name) leads to a port that has given it up")
            }
        }
    }

    /// Ends a port, unless the program's end has.
    func end(_ port: MachPort) {
        guard let index = inboxes.firstIndex(where: { $0 === port }) else { return }
        inboxes.remove(at: index)
        if goesOn, below(4) == 0 { giveUpNames(of: port) }
        promises.ends(port.id, at: port.receiver.id)
        port.invalidate()
        promises.ended(port.id, at: port.receiver.id)
    }

    /// Makes a port with limits.
    func makePort(_ names: PortNameServer) throws(PortError) -> MachPort {
        let port = try MachPort(
            queueLimit: below(2) == 0 ? 5 : 1000, byteLimit: below(4) == 0 ? 6_000 : nil,
            messageLimit: below(4) == 0 ? 2_000 : 64 << 20, nameServer: names)
        promises.made(port.id, by: process, queueLimit: port.queueLimit, byteLimit: port.byteLimit) { [weak port] in
            port?.isValid == true
        }
        return port
    }

    func register(_ port: MachPort, _ name: String, _ names: PortNameServer) -> Bool {
        let (begin, errors) = (machine.now, machine.faults.count)
        do {
            try promises.names.take(name, for: port.id) { () throws(PortError) in try names.register(port, name: name) }
            return true
        } catch .nameInUse(_, let holder) {
            // After an error, an owner may seem to be alive.
            if machine.faults.count == errors { promises.names.refused(name, by: holder.id, begin: begin) }
        } catch {}
        return false
    }

    func check(_ message: MachPort.Message, _ port: MachPort) {
        if scenario.isHostile(message.sender?.pid) { return }
        if message.id == Self.handOverID, let right = message.receiveRight(ofComponent: 0) { return offerCame(right) }
        guard case .bytes(let bytes)? = message.components.first, bytes.count >= 8 else {
            machine.fail("a message came without its bytes")
        }
        let (line, number) = bytes.withUnsafeBytes {
            ($0.loadUnaligned(as: UInt32.self), $0.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
        }
        if !bytes.dropFirst(8).isAll(UInt8(truncatingIfNeeded: number)) {
            machine.fail("message \(number) came with other bytes")
        }
        promises.received(line, number, at: port.id, from: message.sender?.pid)
        checkDescriptor(of: message, line, number)
        // A right that has travelled is watched, too.
        for case .port(let right) in message.components {
            watch(right)
            received.append(right)
            if received.count > 8 { received.removeFirst() }
        }
        for case .receiveRight(let right) in message.components { offerCame(right) }
    }

    func watch(_ right: MachPort.SendRight) {
        guard rights[right.id] == nil, right.isValid else { return }
        rights[right.id] = right
        addHandler(right)
    }

    func addHandler(_ right: MachPort.SendRight) {
        let (watch, promises) = (promises.watching(right.id), Kept(promises))
        let sends = below(8) == 0
        right.onInvalidation { [weak self] in
            promises.value.isTold(watch)
            // Most often on the thread that also connects, and hears whether there is a ring.
            if sends, let self, goesOn, let other = received.last { sendAtOnce(to: other) }
        }
    }
}

extension ArraySlice<UInt8> {
    /// Whether all bytes are the same: compared with themselves, one byte further on, which is faster than a loop.
    fileprivate func isAll(_ byte: UInt8) -> Bool {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, !bytes.isEmpty else { return true }
            return bytes[0] == byte && memcmp(start, start + 1, bytes.count - 1) == 0
        }
    }
}
