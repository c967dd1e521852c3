import Glibc
import ZeroMQ

// Ports that other processes can reach. They are bound and listening before anybody can know of them.

extension Receiver {
    func expose() throws(PortError) -> String {
        let known = try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: identity) }
            return state.exposedIn
        }
        if let known, known.isInPlace { return known.path }
        do throws(PortError) {
            return try exposeInOwnDirectory().path
        } catch {
            // Connected senders go on.
            if let known, isValid { return known.path }
            throw error
        }
    }

    func exposedRight() throws(PortError) -> WireRight {
        var right = channel.right
        right.path = try exposeInOwnDirectory().path
        return right
    }

    /// Exposes the port, also when its directory was removed and made again.
    private func exposeInOwnDirectory() throws(PortError) -> RegistryDirectory {
        let directory = try ownDirectory()
        // This takes a while, and must not delay messages that wait for the lock below.
        try directory.open()
        try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: identity) }
            guard state.exposedIn !== directory || !directory.hasSocket(of: id) else { return }
            let (descriptor, path) = try directory.makeSocket(for: id)
            AcceptGuard.protect(descriptor, most: ControlConnectionTable.mostAccepted)
            do throws(ZeroMQError) {
                try state.socket?.set(.useDescriptor(descriptor))
                try state.socket?.bind("ipc://\(path)")
            } catch {
                directory.removeSocket(of: id)
                Glibc.close(descriptor)
                throw PortError(error)
            }
            if state.exposedIn !== directory { state.exposedIn?.removeSocket(of: id) }
            (state.exposedIn, state.arrivals.hasPeers) = (directory, true)
        }
        return directory
    }

    private func ownDirectory() throws(PortError) -> RegistryDirectory {
        do throws(PortError) {
            return try context.registry.directory(directoryPath)
        } catch {
            // Another path may still lead to the directory that has the port's socket.
            guard let known = state.withLock({ $0.exposedIn }), known.isCurrent(at: known.path) else { throw error }
            return known
        }
    }

    func took(_ entry: NameEntry, in directory: RegistryDirectory) {
        let name = RegisteredName(directory: directory, name: entry.name, isService: entry.isService)
        state.withLock { $0.names.insert(name) }
        tell(entry.name)
        if !isValid { directory.abandon(entry.name, of: id) }
    }

    func gaveUpName(_ name: String, in directory: RegistryDirectory) {
        let other = state.withLock { state in
            state.names.remove(RegisteredName(directory: directory, name: name))
            return state.names.last?.name
        }
        // The last name stays, because errors about the port's end contain it.
        if identity.name == name, let other { tell(other) }
    }

    var identity: PortIdentity { channel.identity }

    /// Tells the name to all processes with rights to the port.
    private func tell(_ name: String) {
        channel.note(name: name)
        for peer in context.control.watchers(of: id.number) { peer.tell(name, of: id.number) }
    }
}
