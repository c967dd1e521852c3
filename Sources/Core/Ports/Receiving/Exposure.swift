import Glibc
import RunLoopLocks

/// How other processes reach a port: the socket in a registry directory, which listens before anybody can know of it, and
/// the registered names.
///
/// The lock is held while the socket is bound, so the lock of ``Intake`` is taken inside it.
final class Exposure: RegisteredPort {
    private struct State {
        /// The directory with the port's socket; nil until the port is exposed.
        var directory: RegistryDirectory?
        /// The socket, while nobody has connected; else -1.
        var listener: Int32 = -1
        var names = RecentSet<RegisteredName>()
        /// Whether other processes cannot connect, because the port moves.
        var isHidden = false
        /// The fate of the names at the port's end; nil before.
        var end: NamesEnd?
    }

    private enum NamesEnd {
        /// Their entries were left to another process.
        case left
        case abandoned
    }

    private let channel: SendChannel
    private let intake: Intake
    private let registry: Registry
    /// The registry directory for the port's socket, when a right to the port leaves the runtime.
    let directoryPath: String
    private let state = Lock(State())

    init(_ channel: SendChannel, _ intake: Intake, _ registry: Registry, directoryPath: String) {
        (self.channel, self.intake, self.registry) = (channel, intake, registry)
        self.directoryPath = directoryPath
    }

    var id: PortID { channel.id }
    var publicID: PortID { channel.publicID }

    // MARK: The socket

    /// Lets other processes connect to the port, and returns the directory's path.
    func expose() throws(PortError) -> String {
        let known = state.withLock { $0.directory }
        try checkPort()
        if let known, known.isInPlace { return known.path }
        do throws(PortError) {
            return try exposeInOwnDirectory().path
        } catch {
            // Connected senders go on.
            if let known, intake.isOpen { return known.path }
            throw error
        }
    }

    func exposedRight() throws(PortError) -> WireRight {
        var right = channel.right
        right.path = try exposeInOwnDirectory().path
        return right
    }

    private func checkPort() throws(PortError) {
        if !intake.isOpen { throw .isInvalid(port: channel.identity) }
    }

    /// Exposes the port, also when its directory was removed and made again.
    private func exposeInOwnDirectory() throws(PortError) -> RegistryDirectory {
        let directory = try ownDirectory()
        // This takes a while, and must not delay those who wait for the lock below.
        try directory.open()
        try state.withLock { (state) throws(PortError) in
            try checkPort()
            guard !state.isHidden, state.directory !== directory || !directory.hasSocket(of: id) else { return }
            let listener = try directory.makeSocket(for: id)
            do throws(PortError) {
                try intake.letPeersSend()
                try registry.listeners.add(listener, of: id.number)
            } catch {
                directory.removeSocket(of: id)
                Glibc.close(listener)
                throw error
            }
            // Somebody may have connected to the former one just now.
            useListener(of: &state)
            if state.directory !== directory { state.directory?.removeSocket(of: id) }
            (state.directory, state.listener) = (directory, listener)
        }
        return directory
    }

    /// Somebody has connected to the socket by ZeroMQ: libzmq gets it.
    func useListener() { state.withLock { useListener(of: &$0) } }

    private func useListener(of state: inout State) {
        guard let directory = state.directory, let listener = takeListener(of: &state) else { return }
        AcceptGuard.protectLibzmq(listener, most: ControlConnectionTable.mostAccepted)
        do throws(PortError) {
            try intake.bind(listener, directory.pathOfSocket(of: id))
        } catch {
            // The next process that wants to connect lets the port listen again.
            log.debug("\(channel.identity) does not listen any more: \(error)")
            directory.removeSocket(of: id)
            Glibc.close(listener)
        }
    }

    private func takeListener(of state: inout State) -> Int32? {
        let listener = exchange(&state.listener, with: -1)
        if listener < 0 { return nil }
        registry.listeners.remove(listener)
        return listener
    }

    /// Makes the socket again, if the port was exposed, and its directory was moved away and back since.
    func renewSocket() { if state.withLock({ $0.directory }) != nil { _ = try? exposeInOwnDirectory() } }

    private func ownDirectory() throws(PortError) -> RegistryDirectory {
        do throws(PortError) {
            return try registry.directory(directoryPath)
        } catch {
            // Another path may still lead to the directory that has the port's socket.
            guard let known = state.withLock({ $0.directory }), known.isCurrent(at: known.path) else { throw error }
            return known
        }
    }

    /// Removes the socket from its directory. It is still open.
    func removeSocket() { state.withLock { $0.directory }?.removeSocket(of: id) }

    // MARK: Moving

    /// The directory with the port's socket, in which the registry says where the port lives.
    func directoryOfSocket() throws(PortError) -> RegistryDirectory { try exposeInOwnDirectory() }

    /// Lets no further process connect to the port. Names and connections stay.
    ///
    /// The socket goes on listening where nobody finds it, because libzmq would end its connections with it.
    func hide() {
        state.withLock { state in
            state.isHidden = true
            state.directory?.hideSocket(of: id)
        }
    }

    /// Lets processes connect to the port again.
    func show() {
        state.withLock { state in
            state.isHidden = false
            state.directory?.showSocket(of: id)
        }
        do throws(PortError) { _ = try exposeInOwnDirectory() } catch {
            log.warning("other processes can't connect to \(channel.identity) any more: \(error)")
        }
    }

    /// The port has ended here, also in the midst of a move.
    func forgetHome() {
        let (directory, isHidden) = state.withLock { ($0.directory, $0.isHidden) }
        guard let directory else { return }
        if isHidden { try? directory.endMoves(of: publicID) }
        if id != publicID { directory.forgetHome(of: publicID, at: id) }
    }

    /// The registered names, with their directories.
    var registeredNames: [RegisteredName] { state.withLock { $0.names.elements } }

    /// Closes the socket, unless libzmq has it. The port has ended.
    func closeListener() {
        if let listener = state.withLock({ takeListener(of: &$0) }) { Glibc.close(listener) }
    }

    /// Releases the directories, which hold descriptors.
    func close() {
        closeListener()
        let former = state.withLock { exchange(&$0, with: State(end: $0.end ?? .abandoned)) }
        withExtendedLifetime(former) {}
    }

    // MARK: Names

    func took(_ entry: NameEntry, in directory: RegistryDirectory, hasCome: Bool) -> Bool {
        let name = RegisteredName(directory: directory, name: entry.name, isService: entry.isService)
        let (isTaken, end) = state.withLock { state -> (Bool, NamesEnd?) in
            // The next owner may have been told the names already. A directory may have taken another's place.
            if state.isHidden {
                let path = directory.path
                let isKnown = state.names.elements.contains { $0.name == entry.name && $0.directory.path == path }
                guard isKnown else { return (false, nil) }
            }
            state.names.insert(name)
            return (true, state.end)
        }
        guard isTaken else { return false }
        tell(entry.name)
        // An end that comes now finds the name among the others.
        switch end {
        case nil: break
        case .left where hasCome:
            directory.leave(entry.name, of: id)
            Self.abandon([name], of: id, whenTakenOn: registry.housekeeping)
        // The lender knows nothing of a name that was registered here just now.
        case .left, .abandoned: directory.abandon(entry.name, of: id)
        }
        return true
    }

    /// Whether the port is being handed over, and the next owner may have been told the names.
    var isHidden: Bool { state.withLock { $0.isHidden } }

    func hasName(_ name: String, in directory: RegistryDirectory) -> Bool {
        state.withLock { $0.names.contains(RegisteredName(directory: directory, name: name)) }
    }

    func gaveUpName(_ name: String, in directory: RegistryDirectory) {
        let other = state.withLock { state in
            state.names.remove(RegisteredName(directory: directory, name: name))
            return state.names.last?.name
        }
        // The last name stays, because errors about the port's end contain it.
        if channel.identity.name == name, let other { tell(other) }
    }

    /// Tells the name to all processes with rights to the port.
    private func tell(_ name: String) {
        channel.note(name: name)
        for peer in channel.channels.control.watchers(of: id.number) { peer.tell(name, of: id.number) }
    }

    func abandonNames() { for held in endNames(.abandoned) { held.directory.abandon(held.name, of: id) } }

    private func endNames(_ end: NamesEnd) -> [RegisteredName] {
        state.withLock { state in
            state.end = end
            return state.names.elements
        }
    }

    /// Gives the names up when the next owner, or the lender, has them, or when the port has ended.
    func abandonNamesWhenTaken() { Self.abandon(registeredNames, of: id, whenTakenOn: registry.housekeeping) }

    /// Does not keep the port, which has descriptors.
    private static func abandon(_ names: [RegisteredName], of port: PortID, whenTakenOn housekeeping: Housekeeping) {
        let kept = names.filter { held in
            let isKept = held.directory.isKept(held.name, of: port)
            if !isKept { held.directory.abandon(held.name, of: port) }
            return isKept
        }
        if kept.isEmpty { return }
        housekeeping.perform(after: .seconds(1)) { [weak housekeeping] in
            if let housekeeping { abandon(kept, of: port, whenTakenOn: housekeeping) }
        }
    }

    /// Leaves the names to the port's next home, or its lender, which removes their entries when it has written its own.
    func leaveNames() {
        for held in endNames(.left) { held.directory.leave(held.name, of: id) }
    }

    var hasLeftNames: Bool { state.withLock { $0.end == .left } }

    /// The registered names, with internal names of the library.
    var names: [String] { state.withLock { $0.names.elements.map(\.name) } }

    /// The registered names of the port, without internal names of the library.
    var serviceNames: [String] { state.withLock { $0.names.elements.filter(\.isService).map(\.name) } }
}
