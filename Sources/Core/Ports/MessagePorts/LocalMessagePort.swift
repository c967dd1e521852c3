import Dispatch
import RunLoopLocks
import RunLoops

/// A port that answers requests. The corresponding CF function is `CFMessagePortCreateLocal`.
///
///     let server = try LocalMessagePort(name: "com.example.echo") { id, data in data }
///     try server.schedule(in: .current)
///     try ThreadRunLoop.current.run()
///
/// A port without a handler keeps its requests for tasks: see ``serve(atMost:_:)`` and ``requests``.
public final class LocalMessagePort: Sendable, CustomStringConvertible {
    /// Answers a request by returning data, or none. The corresponding CF type is `CFMessagePortCallBack`.
    public typealias DataHandler = @Sendable (_ id: UInt32, _ data: [UInt8]?) -> [UInt8]?

    /// Takes a request, and answers now, later, or not at all.
    public typealias RequestHandler = @Sendable (MessagePortRequest) -> Void

    package let port: MachPort
    let ledger: RequestLedger
    let nameServer: PortNameServer
    private let currentName: Lock<String?>
    let renaming = Lock(())

    /// The port's name; nil for none. An invalid port still returns its last name, though the name is free.
    /// The corresponding CF function is `CFMessagePortGetName`.
    public var name: String? { currentName.withLock { $0 } }

    /// The port in texts: its name and its owner.
    public var identity: PortIdentity { port.identity }

    /// The text of the ``identity``.
    public var description: String { identity.description }

    /// Makes a port whose handler answers at once. A slow asker does not delay the port: up to a hundred replies wait,
    /// and more while they are small, each for ten seconds.
    /// - Parameters:
    ///   - name: The port's name; nil for none.
    ///   - nameServer: The name server of the name.
    ///   - queueLimit: As at ``MachPort/init(queueLimit:byteLimit:messageLimit:nameServer:handler:)``.
    ///   - byteLimit: As there.
    ///   - messageLimit: As there.
    ///   - handler: Called on the threads that serve the port, with the id and the data of each request.
    /// - Throws: ``PortError``: `nameInUse`, `badName`, `invalidLimit`, `outOfDescriptors`, or an error of the
    ///   directory.
    public convenience init(
        name: String? = nil, nameServer: PortNameServer = .shared, queueLimit: Int = 1000,
        byteLimit: Int? = nil, messageLimit: Int = 64 << 20, handler: @escaping DataHandler
    ) throws(PortError) {
        try self.init(
            name: name, nameServer: nameServer, queueLimit: queueLimit, byteLimit: byteLimit,
            messageLimit: messageLimit,
            requestHandler: { request in
                let answer = handler(request.id, request.data)
                guard let right = request.replyRight else { return }
                do throws(PortError) { try right.reply(with: answer) } catch { right.noteUnsent(error) }
            })
    }

    /// Makes a port whose handler gets a right to reply, now or later. Without a handler, requests wait for tasks.
    /// - Parameters:
    ///   - name: The port's name; nil for none.
    ///   - nameServer: The name server of the name.
    ///   - queueLimit: As at ``MachPort/init(queueLimit:byteLimit:messageLimit:nameServer:handler:)``.
    ///   - byteLimit: As there.
    ///   - messageLimit: As there.
    ///   - requestHandler: Called on the threads that serve the port, with each request; nil for a port that tasks
    ///     serve.
    /// - Throws: ``PortError``: `nameInUse`, `badName`, `invalidLimit`, `outOfDescriptors`, or an error of the
    ///   directory.
    public init(
        name: String? = nil, nameServer: PortNameServer = .shared, queueLimit: Int = 1000,
        byteLimit: Int? = nil, messageLimit: Int = 64 << 20, requestHandler: RequestHandler? = nil
    ) throws(PortError) {
        let limits = PortLimits(queue: queueLimit, bytes: byteLimit, message: messageLimit)
        self.nameServer = nameServer
        currentName = Lock(name)
        ledger = RequestLedger(nameServer.runtime.notices)
        port = try MachPort(limits, nameServer, MessagePortRequest.handler(requestHandler, ledger), requests: ledger)
        if let name { try nameServer.register(port, name: name) }
        nameServer.runtime.localMessagePorts.entries.withLock { $0[port.receiver.id] = .init(of: self) }
    }

    /// Makes a port of one that has come from another process.
    init(
        _ port: MachPort, _ ledger: RequestLedger, _ nameServer: PortNameServer, _ requestHandler: RequestHandler?
    ) {
        // A port of this runtime, which has not moved, keeps its ledger.
        let ledger = port.receiver.ledger ?? ledger
        (self.port, self.ledger, self.nameServer) = (port, ledger, nameServer)
        currentName = Lock(port.receiver.exposure.serviceNames.last)
        port.receiver.setHandlers(.init(message: MessagePortRequest.handler(requestHandler, ledger)))
        nameServer.runtime.localMessagePorts.entries.withLock { $0[port.receiver.id] = .init(of: self) }
    }

    /// Makes a message port again of one that was lent, and has come back.
    package convenience init(returned port: MachPort, nameServer: PortNameServer) {
        self.init(port, RequestLedger(nameServer.runtime.notices), nameServer, nil)
    }

    deinit {
        // A port that comes back may have another object already.
        let (id, own) = (port.receiver.id, ObjectIdentifier(self))
        nameServer.runtime.localMessagePorts.entries.withLockUnlessForked { entries in
            if entries[id]?.object == own { entries[id] = nil }
        }
    }

    /// The valid port of this process with a name; nil when there is none. `CFMessagePortCreateLocal` returns such a
    /// port.
    public static func existing(_ name: String, nameServer: PortNameServer = .shared) -> LocalMessagePort? {
        let ports = nameServer.runtime.localMessagePorts
        // The array retains the ports, because no port may be released under the lock.
        let all = ports.entries.withLockUnlessForked { $0.values.compactMap(\.port.object) } ?? []
        return all.first { $0.isValid && $0.name == name && $0.nameServer.isSame(as: nameServer) }
    }

    /// Gives the port another name; nil for none. The port has the new name before the old one is free. Any thread may
    /// call this method. The corresponding CF function is `CFMessagePortSetName`.
    /// - Throws: ``PortError``: `nameInUse`, `badName`, an error of the directory, `unavailable` while the port is being handed
    ///   over to another process, and `isInvalid` when the port finishes. After an error the port keeps its old name.
    public func rename(to name: String?) throws(PortError) {
        try Fork.check()
        try renaming.withLock { _ throws(PortError) in
            if ledger.isFinishing { throw .isInvalid(port: port.identity) }
            let former = self.name
            guard name != former else { return }
            if let name { try nameServer.register(port, name: name) }
            do throws(PortError) {
                if let former { try nameServer.remove(port, name: former) }
            } catch {
                if let name { try? nameServer.remove(port, name: name) }
                throw error
            }
            currentName.withLock { $0 = name }
        }
    }

    /// Asks `current` for a handler before each request. While there is none, requests wait.
    package func setHandler(ofDelegate current: @escaping @Sendable () -> RequestHandler?) {
        port.receiver.setHandlers(
            .init(ofDelegate: { [ledger] in MessagePortRequest.handler(current(), ledger) }))
    }

    /// Describes the requests with an id for observers of the port: `portctl`, the module PortsInspection, the log.
    ///
    ///     let server = try LocalMessagePort(name: "com.example.echo")
    ///     server.setKind(RequestKind(name: "Wait for a change", mayLast: true), ofRequests: 7)
    ///
    /// Any thread may call this method, at any time.
    public func setKind(_ kind: RequestKind, ofRequests id: UInt32) { ledger.serving.setKind(kind, of: id) }

    /// The right to send to the port, for processes that do not look up the name.
    public var sendRight: MachPort.SendRight { port.sendRight }

    /// Schedules the port in a mode of a loop, which handles its requests. The corresponding CF function is
    /// `CFMessagePortCreateRunLoopSource`.
    /// - Throws: ``PortError``: `isInvalid`, `outOfDescriptors`, or an error of the loop.
    public func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) throws(PortError) {
        try port.schedule(in: loop, forMode: mode)
    }

    /// Removes the port from a loop's mode.
    public func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        port.remove(from: loop, forMode: mode)
    }

    /// Lets a dispatch queue handle requests; nil for none. See ``MachPort/setQueue(_:)``. The corresponding CF
    /// function is `CFMessagePortSetDispatchQueue`.
    /// - Throws: ``PortError``.
    public func setQueue(_ queue: DispatchQueue?) throws(PortError) { try port.setQueue(queue) }

    /// Whether a loop handles requests in a mode.
    public func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        port.isScheduled(in: loop, forMode: mode)
    }

    /// The number of messages that were taken, and whether another one waits, or any of them is still being handled.
    package var activity: (taken: Int, isBusy: Bool) {
        let look = port.receiver.intake.look()
        return (look.taken, !look.isEmpty || !ledger.isEmpty || !ledger.serving.oneWay.isEmpty)
    }

    /// Asks all senders, and calls the closure once with the number of messages that wait: zero when the port is gone. The
    /// closure is called on any thread, most often one of the library, and must not block it.
    package func countWaiting(_ body: @escaping @Sendable (Int) -> Void) {
        let (runtime, number) = (nameServer.runtime, port.receiver.id.number)
        do throws(PortError) {
            try runtime.housekeeping.perform {
                runtime.statistics.collect(for: number) { body($0.statistics?.waiting ?? 0) }
            }
        } catch {
            body(0)
        }
    }

    /// Whether the port takes requests. The corresponding CF function is `CFMessagePortIsValid`.
    public var isValid: Bool { port.isValid }

    /// Makes the port invalid, for good. See ``MachPort/invalidate()``. The corresponding CF function is
    /// `CFMessagePortInvalidate`.
    public func invalidate() { port.invalidate() }

    /// Makes the port invalid without waiting for messages that are being handled. Askers learn the end after their
    /// replies, also when a handler calls this method.
    package func invalidateAtOnce() { port.receiver.invalidate(waitsUntil: nil, keepsOwnTurn: true) }

    /// Calls a handler when the port has become invalid. See ``MachPort/onInvalidation(_:)``. The corresponding CF
    /// function is `CFMessagePortSetInvalidationCallBack`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { port.onInvalidation(handler) }
}

private final class LocalMessagePorts: Sendable {
    struct Entry {
        let object: ObjectIdentifier
        let port: Weak<LocalMessagePort>

        init(of port: LocalMessagePort) { (object, self.port) = (ObjectIdentifier(port), Weak(port)) }
    }

    let entries = Lock<[PortID: Entry]>([:])
}

extension PortRuntime {
    fileprivate var localMessagePorts: LocalMessagePorts { attachment { LocalMessagePorts() } }
}

extension PortDescriptor where Port == LocalMessagePort {
    /// Makes a descriptor for a message port. The corresponding CF function is `CFMessagePortCreateRunLoopSource`.
    /// - Throws: ``PortError`` when the port is invalid, no descriptor is left, or the process is a fork.
    public convenience init(_ port: LocalMessagePort) throws(PortError) { try self.init(port, port.port.receiver) }

    /// Takes the next request, for a port without a handler; nil when none waits. An edge-triggered event loop has to
    /// call this method until it returns nil.
    /// - Throws: ``PortError``: `isInvalid` when the port has ended.
    public func receive() throws(PortError) -> MessagePortRequest? {
        guard let message = try receiver.takeNow(taker, takesRequests: true) else { return nil }
        return MessagePortRequest(message, port.ledger)
    }
}
