import Glibc
import RunLoops
import ZeroMQ

// Ports that other processes can reach: bound and listening before anybody can know of them.

extension Receiver {
    func expose() throws(PortError) -> String {
        let known = try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: id) }
            return state.exposedIn
        }
        if let known { return known.path }
        return try exposeInOwnDirectory().path
    }

    func exposedRight() throws(PortError) -> WireRight {
        var right = try channel.wireRight(leaving: false)
        right.path = try exposeInOwnDirectory().path
        return right
    }

    /// Exposes the port also when its directory was removed and made again since.
    private func exposeInOwnDirectory() throws(PortError) -> RegistryDirectory {
        let directory = try context.registry.directory(directoryPath)
        // This takes a while, and must not hold up messages that wait for the lock below.
        try directory.open()
        try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen else { throw .isInvalid(port: id) }
            guard state.exposedIn !== directory else { return }
            let (descriptor, path) = try directory.makeSocket(for: id)
            AcceptGuard.protect(descriptor, most: ControlConnections.most + ControlConnections.mostCallers)
            do throws(PortError) {
                try state.socket?.listen(on: descriptor, path)
            } catch {
                directory.removeSocket(of: id)
                Glibc.close(descriptor)
                throw error
            }
            state.exposedIn = directory
        }
        return directory
    }

    func tookName(_ name: String, in directory: RegistryDirectory) {
        state.withLock { state in
            guard !state.names.contains(where: { $0.directory === directory && $0.name == name }) else { return }
            state.names.append((directory, name))
        }
        if !isValid { directory.abandon(name, of: id) }
    }

    func gaveUpName(_ name: String, in directory: RegistryDirectory) {
        state.withLock { $0.names.removeAll { $0.directory === directory && $0.name == name } }
    }
}

extension Socket {
    fileprivate func listen(on descriptor: Int32, _ path: String) throws(PortError) {
        do {
            try set(.useDescriptor(descriptor))
            try bind("ipc://\(path)")
        } catch {
            throw PortError(error)
        }
    }
}
