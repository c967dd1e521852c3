/// Passes the reports of control connections and channels to the parts of the runtime that need them.
extension PortRuntime: RuntimeEvents {
    func channelBecameInvalid(_ port: PortID) {
        replies.pending.portBecameInvalid(port)
        notices.portBecameInvalid(port)
        if port.incarnation == incarnation { statistics.portBecameInvalid(port.number) }
        registry.notePortInvalidated()
    }

    func ownPortHasMoved(_ number: UInt64) {
        statistics.portBecameInvalid(number)
        // Askers of this process may wait for its answer.
        portLeft(PortID(incarnation: incarnation, number: number), isTold: true)
    }

    func received(_ message: ControlMessage, from peer: Incarnation) {
        switch message {
        case .unanswered(let request): replies.pending.unanswered(request) { .unanswered(port: $0) }
        case .failed(let request, let reason):
            replies.pending.unanswered(request) { .failed(port: $0, RequestFailure(reason)) }
        case .refused(let request): replies.pending.fail(request) { .refused(port: $0) }
        case .requestMoved(let number, let request):
            replies.pending.movedOn(request, from: PortID(incarnation: peer, number: number))
        case .requestIsHere(let number, let request):
            replies.pending.isHere(request, at: PortID(incarnation: peer, number: number))
        case .hasRequest(let number, let request): asked(for: request, at: number, by: peer)
        case .invalidated(let number): channels.existing(PortID(incarnation: peer, number: number))?.leftOwner()
        case .cancelled(let request): notices.cancel(RequestID(asker: peer, number: request))
        default: break
        }
    }

    func received(_ message: ControlMessage, _ descriptors: [OwnedDescriptor], from peer: ControlConnection) {
        let sender = peer.incarnation
        func channel(_ number: UInt64) -> SendChannel? {
            channels.existing(PortID(incarnation: sender, number: number))
        }
        switch message {
        case .watch(let number):
            // The port may have become invalid before, or on another thread at this moment.
            guard let port = ports.port(number), port.isValid || port.isHandedOver else {
                return peer.tellInvalidated(number)
            }
            if let name = port.channel.identity.name { peer.tell(name, of: number) }
            finishing.watched(number, by: peer)
        case .invalidated, .unanswered, .failed, .refused, .cancelled, .requestMoved, .hasRequest, .requestIsHere:
            received(message, from: sender)
        case .credit(let number, let bytes): channel(number)?.returnCredit(Int(clamping: bytes))
        case .count(let number): peer.send(.sent(number, count: UInt64(channel(number)?.acceptedCount ?? 0)))
        case .sent(let number, let count): statistics.sent(Int(clamping: count), to: number, by: sender)
        case .drained(let number, let probe): channel(number)?.drained(probe)
        case .probed(let number): ports.port(number)?.intake.answerProbesSoon()
        case .question(let question): inspector.asked(question, by: sender)
        case .named(let number, let name): channel(number)?.note(name: name)
        case .finishing(let number):
            if let channel = channel(number) { channel.finish() } else { peer.send(.finished(number)) }
        case .finished(let number):
            if finishing.areDone(number) == nil {
                // The sender has missed that the port stays.
                if let port = ports.port(number), port.isValid, !port.isLeaving { peer.send(.stayed(number)) }
            } else {
                // Only then, because the messages are handled on this thread.
                ports.port(number)?.takeRing(of: sender)
            }
            finishing.finished(number, by: sender)
        case .moving(let number):
            if let channel = channel(number) { channel.waitForMove() } else { peer.send(.finished(number)) }
        case .stayed(let number): channel(number)?.stay()
        case .wantsRing(let number, let question):
            let port = ports.port(number)
            port?.sendsByZeroMQ(sender, false)
            if port?.isLeaving == true { return }
            if port?.makeRing(for: peer, question: question) == true { return }
            if let port {
                port.refuseRing(to: peer, question: question)
            } else {
                peer.send(.noRing(number, question: question))
            }
        case .ring(let number, let question):
            if let channel = channel(number) {
                channel.ringCame(descriptors, question)
            } else {
                peer.send(.ringClosed(number, question: question))
            }
        case .noRing(let number, let question): channel(number)?.ringWasRefused(question)
        case .ringClosed(let number, let question): ports.port(number)?.endRings(of: sender, question: question)
        case .zeroMQ(let number, let isOpen): ports.port(number)?.sendsByZeroMQ(sender, isOpen)
        case .wantsDescriptorSocket(let number, let question):
            guard let port = ports.port(number) else { return peer.tellInvalidated(number) }
            // The sender of a port that moves or ends goes on elsewhere, or learns the end.
            if port.isLeaving || !port.isValid { return }
            if port.makeDescriptorSocket(for: peer, question: question) { return }
            // It may have ended meanwhile.
            if !port.isLeaving, port.isValid { peer.send(.noDescriptorSocket(number, question: question)) }
        case .descriptorSocket(let number, let question):
            if let channel = channel(number) {
                channel.descriptorSocketCame(descriptors.first, question)
            } else {
                peer.send(.descriptorSocketClosed(number, question: question))
            }
        case .noDescriptorSocket(let number, let question): channel(number)?.descriptorSocketCame(nil, question)
        case .descriptorSocketClosed(let number, let question):
            ports.port(number)?.closeDescriptorSocket(of: sender, question: question)
        }
    }

    func requestRefused(_ number: UInt64, of asker: Incarnation) {
        notices.ended(RequestID(asker: asker, number: number), .refused)
    }

    func home(of port: PortID, in directory: String) -> PortID? {
        (try? registry.directory(directory).home(of: port)) ?? nil
    }

    /// The directory at a path; nil when there is none that can be used.
    private func directoryNow(_ path: String) throws(PortError) -> RegistryDirectory? {
        do throws(PortError) {
            return try registry.directory(path)
        } catch {
            if error.isShortage { throw error }
            return nil
        }
    }

    func nextHome(
        of port: PortID, after address: PortID, in directory: String, ownerDied: Bool
    ) throws(PortError) -> NextHome? {
        do throws(PortError) {
            let current = try directoryNow(directory)
            if let next = try current?.nextHome(of: port, after: address, ownerDied: ownerDied) { return next }
            // The directory in which this runtime has noted its loan may have another path now, or none.
            let waiting = ports.all.first { port == $0.channel.publicID && $0.isValid && $0.arrival?.standby != nil }
            guard let waiting, let noted = waiting.arrival?.standby?.directory else { return nil }
            let next = noted === current ? nil : try noted.nextHome(of: port, after: address, ownerDied: ownerDied)
            // The loan ends, with the port or without it.
            return next ?? .lender(waiting.channel.id)
        } catch {
            if error.isShortage { throw error }
            return nil
        }
    }

    func comesBack(_ number: UInt64, from home: PortID) throws(PortError) -> Bool {
        try ports.port(number)?.arrival?.standby?.comesBack(from: home) ?? false
    }

    func portLeft(_ home: PortID, isTold: Bool) { replies.pending.portLeft(home, isTold: isTold) }

    func requestReaddressed(_ request: UInt64, to home: PortID) { replies.pending.readdress(request, to: home) }

    /// A peer, or this runtime, asks whether a request of its has come with a port.
    private func asked(for request: UInt64, at number: UInt64, by asker: Incarnation) {
        let answer: @Sendable (ControlMessage) -> Void = { [weak self] message in
            guard let self else { return }
            if asker == incarnation { received(message, from: asker) } else { control.send(message, to: asker) }
        }
        guard let port = ports.port(number), port.isValid || port.isHandedOver else {
            // This process may still work on the request. A handler may be about to take it until the port has ended here,
            // which is told.
            let ending = ports.port(number)
            let requests = ending?.requests ?? ports.requests(ofFormer: number)
            if requests?.has(RequestID(asker: asker, number: request)) == true {
                return answer(.requestIsHere(number, request: request))
            }
            if ending == nil { answer(.requestMoved(number, request: request)) }
            return
        }
        // The end of the port tells the asker, which then asks its next home.
        guard port.isValid else { return }
        guard let arrival = port.arrival else { return answer(.unanswered(request)) }
        arrival.ask(for: request, of: asker) { request, isThere in
            if isThere { return answer(.requestIsHere(number, request: request)) }
            arrival.whenExplained { reason in
                answer(reason.map { .failed(request, reason: $0) } ?? .unanswered(request))
            }
        }
    }

    func connectionBegan(_ peer: ControlConnection, owing ports: Set<UInt64>) {
        for channel in channels.channels(to: peer.incarnation) { channel.note(owner: peer.owner) }
        controlConnectionChanged(peer.incarnation)
        for channel in channels.channels(to: peer.incarnation) { channel.askWhetherPortMoves() }
        replies.pending.askAgain(peer.incarnation)
        for number in ports { self.ports.port(number)?.intake.returnUndeliveredCredit() }
    }

    func controlConnectionChanged(_ peer: Incarnation) {
        for channel in channels.channels(to: peer) { channel.controlConnectionChanged() }
    }

    func place(of peer: Incarnation) -> (@Sendable () -> Bool)? { registry.place(of: peer) }

    func rights(to peer: Incarnation) -> [PeerRight] {
        channels.channels(to: peer).map { ($0.id, $0.controlAddress, $0.isWatched) }
            // A reply of a living owner may come after its port has ended.
            + replies.pending.endedChannels(to: peer).map { ($0.id, $0.controlAddress, false) }
    }
}

extension SendChannel {
    /// The runtime of the channel, which the caller retains while it needs the runtime.
    /// - Throws: ``PortError`` after the runtime's end, and in a forked child.
    func retainedRuntime() throws(PortError) -> PortRuntime {
        try Fork.check()
        guard let runtime = channels.control.events as? PortRuntime else { throw .isEnding }
        return runtime
    }
}
