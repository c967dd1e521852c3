import Dispatch
import RunLoops

/// A port that answers requests. The corresponding CF function is `CFMessagePortCreateLocal`.
///
///     let server = try LocalMessagePort(name: "com.example.echo") { id, data in data }
///     try server.schedule(in: .current)
///     try ThreadRunLoop.current.run()
public final class LocalMessagePort: Sendable, CustomStringConvertible {
    /// Answers a request by returning data, or none. The corresponding CF type is `CFMessagePortCallBack`.
    public typealias DataHandler = @Sendable (_ id: UInt32, _ data: [UInt8]?) -> [UInt8]?

    /// Takes a request, to answer it now or later, or not at all.
    public typealias RequestHandler = @Sendable (MessagePortRequest) -> Void

    private let port: MachPort
    private let nameServer: PortNameServer
    private let currentName: Lock<String?>
    /// Held while the name changes, which takes a while.
    private let renaming = Lock(())

    /// The name by which others find the port; nil for none. An invalid port keeps the name it had, though others may
    /// take it. The corresponding CF function is `CFMessagePortGetName`.
    public var name: String? { currentName.withLock { $0 } }

    /// Its name, and which port it is.
    public var description: String { (name.map { "“\($0)”, " } ?? "") + port.description }

    /// Makes a port whose handler answers at once. Its limits have to be positive.
    ///
    /// - Parameters:
    ///   - name: The name by which others find it; nil for none.
    ///   - nameServer: Where the name is registered.
    ///   - queueLimit: How many requests of one sender wait at the port before that sender has to.
    ///   - byteLimit: How many bytes of one sender's requests wait before that sender has to; nil for any number.
    ///   - messageLimit: The largest request that it takes, in bytes.
    ///   - handler: Called on the loops that the port is scheduled in, and on its queue. What it returns is sent to the
    ///     asker; to one who wants no reply, nothing is. An asker that takes no replies does not hold up the port: up to
    ///     a hundred wait for it, each for ten seconds.
    /// - Throws: ``PortError``, as ``PortNameServer/register(_:name:)``.
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

    /// Makes a port whose handler is given a right to reply, to use when it likes. Its limits have to be positive.
    ///
    /// - Parameters:
    ///   - name: The name by which others find it; nil for none.
    ///   - nameServer: Where the name is registered.
    ///   - queueLimit: How many requests of one sender wait at the port before that sender has to.
    ///   - byteLimit: How many bytes of one sender's requests wait before that sender has to; nil for any number.
    ///   - messageLimit: The largest request that it takes, in bytes.
    ///   - requestHandler: Called on the loops that the port is scheduled in, and on its queue.
    /// - Throws: ``PortError``, as ``PortNameServer/register(_:name:)``.
    public init(
        name: String? = nil, nameServer: PortNameServer = .shared, queueLimit: Int = 1000,
        byteLimit: Int? = nil, messageLimit: Int = 64 << 20, requestHandler: @escaping RequestHandler
    ) throws(PortError) {
        self.nameServer = nameServer
        currentName = Lock(name)
        port = try MachPort(.init(queue: queueLimit, bytes: byteLimit, message: messageLimit), nameServer) {
            requestHandler(MessagePortRequest($0))
        }
        if let name { try nameServer.register(port, name: name) }
        nameServer.runtime.localMessagePorts.add(self)
    }

    deinit { nameServer.runtime.localMessagePorts.remove(port.id) }

    /// The valid port of this process that has a name; nil when none has. Making a second one of that name fails, where
    /// `CFMessagePortCreateLocal` returns the first.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - nameServer: Where the name is registered.
    public static func existing(_ name: String, nameServer: PortNameServer = .shared) -> LocalMessagePort? {
        nameServer.runtime.localMessagePorts.all.first {
            $0.isValid && $0.name == name && $0.nameServer.isSame(as: nameServer)
        }
    }

    /// Gives the port another name, or none. The corresponding CF function is `CFMessagePortSetName`.
    ///
    /// Any thread may call it. The new name is the port's before the old one is free. Who has found the port by the old
    /// one goes on talking to it.
    /// - Parameter name: The new name; nil for none.
    /// - Throws: ``PortError``, as ``PortNameServer/register(_:name:)``: the port keeps its old name.
    public func rename(to name: String?) throws(PortError) {
        try Fork.check()
        try renaming.withLock { _ throws(PortError) in
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

    /// The right to send to it, for those who cannot or need not look it up by name.
    public var sendRight: MachPort.SendRight { port.sendRight }

    /// Has a loop handle requests in a mode. The corresponding CF function is `CFMessagePortCreateRunLoopSource`.
    public func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) throws(PortError) {
        try port.schedule(in: loop, forMode: mode)
    }

    /// Takes the port out of a loop's mode.
    public func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        port.remove(from: loop, forMode: mode)
    }

    /// Has a dispatch queue handle requests, one at a time, in place of the queue before; nil: none does. It keeps the
    /// port until that is invalid. The corresponding CF function is `CFMessagePortSetDispatchQueue`.
    ///
    /// - Throws: ``PortError`` when the port is invalid.
    public func setQueue(_ queue: DispatchQueue?) throws(PortError) { try port.setQueue(queue) }

    /// Whether a loop handles requests in a mode.
    public func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        port.isScheduled(in: loop, forMode: mode)
    }

    /// Whether the port takes requests. The corresponding CF function is `CFMessagePortIsValid`.
    public var isValid: Bool { port.isValid }

    /// Ends the port for good, and frees its name; requests that wait are refused.
    /// The corresponding CF function is `CFMessagePortInvalidate`.
    public func invalidate() { port.invalidate() }

    /// Calls a handler when the port becomes invalid: at once when it is already.
    /// The corresponding CF function is `CFMessagePortSetInvalidationCallBack`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { port.onInvalidation(handler) }
}

/// The message ports of a runtime.
private final class LocalMessagePorts: Sendable {
    /// A class, because a dictionary whose values hold weak references corrupts them (Swift 6.3, debug).
    private final class Entry: Sendable {
        weak let port: LocalMessagePort?
        init(_ port: LocalMessagePort) { self.port = port }
    }

    private let entries = Lock<[PortID: Entry]>([:])

    func add(_ port: LocalMessagePort) { entries.withLock { $0[port.sendRight.id] = Entry(port) } }

    func remove(_ id: PortID) { _ = entries.withLockUnlessForked { $0.removeValue(forKey: id) != nil } }

    /// The result keeps the ports: none may be released under the lock.
    var all: [LocalMessagePort] { entries.withLockUnlessForked { $0.values.compactMap(\.port) } ?? [] }
}

extension PortRuntime {
    fileprivate var localMessagePorts: LocalMessagePorts { attachment { LocalMessagePorts() } }
}
