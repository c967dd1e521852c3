// The death of a peer, and the end of the last connection to it, as the ports and the requests of this runtime see them.

extension PortRuntime {
    func processDied(_ address: ControlAddress) {
        control.forgetNotices(for: address.incarnation)
        notices.forget(address.incarnation)
        for channel in channels(to: address) { channel.ownerDied() }
    }

    /// The channels to the ports of a process. The probes come last: whoever has asked by one then looks whether the port lives.
    private func channels(to address: ControlAddress) -> [SendChannel] {
        channels.channels(to: address.incarnation).filter { $0.controlAddress == address }.sorted {
            $0.id.number < $1.id.number
        }
    }

    /// A process has reported that it crashes. Its ports end, but for those that it has borrowed: they come back at its end,
    /// because its other threads may take messages until then.
    func processCrashes(_ address: ControlAddress) {
        control.noteCrash(of: address.incarnation)
        for channel in channels(to: address) {
            let lender = try? registry.directory(channel.path).lender(of: channel.publicID)
            if (lender ?? nil) == nil { channel.ownerDied() }
        }
    }

    func connectionEnded(_ peer: ControlConnection, isLast: Bool) {
        controlConnectionChanged(peer.incarnation)
        guard isLast else { return }
        for port in ports.all {
            port.endRings(of: peer.incarnation, isGone: true)
            port.closeDescriptorSocketsSoon()
        }
        notices.askerIsGone(peer.incarnation)
        statistics.connectionEnded(peer)
        finishing.connectionEnded(peer.incarnation)
    }

    func mayBeAlive(_ address: ControlAddress, _ former: FormerPeer?) -> Bool { registry.mayBeAlive(address, former) }
}
