// What this process knows of a channel's port, for people.

extension SendChannel {
    /// The port as people know it.
    var identity: PortIdentity { known.withLockUnlessForked { current(&$0) } ?? PortIdentity(id) }

    func note(name: String) {
        known.withLock { $0 = PortIdentity(id, name: name, owner: current(&$0).owner) }
        log.debug("port \(id.number) of \(identity.ownerText) is \(identity)")
    }
    func note(owner: ProcessIdentity) { known.withLock { $0 = PortIdentity(id, name: $0?.name, owner: owner) } }

    /// Made when it is first asked for: most ports need none.
    private func current(_ known: inout PortIdentity?) -> PortIdentity {
        let identity = known ?? PortIdentity(id, owner: isLocal ? .own : nil)
        known = identity
        return identity
    }
}
