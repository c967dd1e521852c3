import Glibc
import RunLoopLocks

/// A descriptor that a message carries to a port of any process: a file, a pipe, a socket, memory, a directory.
///
///     let log = try MessageDescriptor(duplicating: 2)
///     let right = try PortNameServer.shared.port(forName: "com.example.worker")
///     try right.send(MachPort.Message(id: 1, [.descriptor(log)]), before: .now + .seconds(1))
///
/// The object owns the descriptor, and closes it with its last reference. A message that is sent takes the descriptor
/// out of the object, so that it travels once: further uses throw ``PortError/descriptorGone``. When the send throws, the
/// descriptor is back. In a received message the object owns a new descriptor of this process, which is closed on exec.
///
/// A message takes up to 64 descriptors. A message that nobody receives closes its descriptors. Any thread may call all
/// methods. The corresponding functions are `fileport_makeport`, `fileport_makefd` and `xpc_fd_create`.
public final class MessageDescriptor: Sendable {
    /// The largest number of descriptors of a message.
    public static let largestCount = Wire.mostDescriptors

    private struct State {
        var content: Result<Int32, PortError>
        /// Gets the descriptor back if this object ends before the message was sent.
        var origin: MessageDescriptor?
    }

    private let state: Lock<State>
    /// Memory that stays, and whose descriptor any number of messages take; nil for a descriptor of this object's.
    let memory: MappedMemory?

    private init(_ content: Result<Int32, PortError>, origin: MessageDescriptor? = nil, memory: MappedMemory? = nil) {
        state = Lock(State(content: content, origin: origin))
        self.memory = memory
    }

    /// Lends the descriptor of frozen memory to any number of messages.
    convenience init(lending memory: MappedMemory) { self.init(.failure(.descriptorGone), memory: memory) }

    /// Takes an open descriptor, which nobody else may close from now on. It is closed on exec.
    public convenience init(owning descriptor: Int32) {
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        self.init(.success(descriptor))
    }

    /// Duplicates an open descriptor, which stays the caller's. The corresponding C call is `fcntl` with
    /// `F_DUPFD_CLOEXEC`.
    /// - Throws: ``PortError`` when the descriptor is not open, or no descriptor is left.
    public convenience init(duplicating descriptor: Int32) throws(PortError) {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw .last("fcntl") }
        self.init(.success(copy))
    }

    /// Takes a descriptor that has come with a message.
    convenience init(received descriptor: Int32) { self.init(.success(descriptor)) }

    /// Stands for a descriptor that did not come with its message.
    convenience init(missing error: PortError) { self.init(.failure(error)) }

    deinit {
        guard case (.success(let descriptor), let origin)? = state.withLockUnlessForked({ ($0.content, $0.origin) })
        else {
            return
        }
        if let origin { origin.state.withLock { $0.content = .success(descriptor) } } else { close(descriptor) }
    }

    /// The number of the descriptor, which stays open as long as this object lives, is not sent, and is not taken.
    /// - Throws: ``PortError``: `descriptorGone` after it was sent or taken; in a received message `descriptorLost` when it
    ///   did not arrive, and `outOfDescriptors` when this process had none left for it.
    public var number: Int32 {
        get throws(PortError) {
            if let memory { return memory.descriptor.number }
            return try state.withLock { $0.content }.get()
        }
    }

    /// Takes the descriptor out of the object. The caller closes it.
    /// - Throws: ``PortError``, as ``number``.
    public func take() throws(PortError) -> Int32 {
        if let memory { return try MessageDescriptor(of: memory).take() }
        return try state.withLock { state in
            defer { if case .success = state.content { state.content = .failure(.descriptorGone) } }
            return state.content
        }.get()
    }

    // MARK: Memory

    /// A descriptor of the memory.
    convenience init(of memory: MappedMemory) throws(PortError) {
        try self.init(duplicating: memory.descriptor.number)
    }

    /// Maps the memory that nobody can change.
    func mapFrozen() throws(PortError) -> MappedMemory { try .frozen(number) }

    /// The size of the memory that nobody can change.
    func frozenSize() throws(PortError) -> UInt64 { try MappedMemory.frozenSize(number) }

    /// Maps the memory that all who have it may write.
    func mapWritable() throws(PortError) -> MappedMemory { try .writable(number) }

    // MARK: Sending

    /// Moves the descriptor into the object that the message carries. Until ``noteSent()``, its end brings the descriptor
    /// back.
    func handOver() throws(PortError) -> MessageDescriptor {
        memory == nil ? MessageDescriptor(.success(try take()), origin: self) : self
    }

    /// The message was sent.
    func noteSent() {
        let origin = state.withLock { $0.origin.take() }
        withExtendedLifetime(origin) {}
    }
}

extension [MessageDescriptor] {
    func noteSent() { for descriptor in self { descriptor.noteSent() } }
}

extension MessageDescriptor: Hashable, CustomStringConvertible {
    /// Whether both are the same object.
    public static func == (left: MessageDescriptor, right: MessageDescriptor) -> Bool { left === right }

    /// Hashes the identity of the object.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// The number of the descriptor, or the reason why there is none.
    public var description: String {
        do throws(PortError) { return "descriptor \(try number)" } catch { return "no descriptor: \(error)" }
    }
}
