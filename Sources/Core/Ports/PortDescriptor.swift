/// A descriptor by which an event loop of any kind serves a port: epoll, poll, GLib, libuv, SwiftNIO…
///
///     let port = try MachPort { message in print("got", message.id) }
///     let descriptor = try PortDescriptor(port)
///     // When the event loop says that `descriptor.fileDescriptor` is readable:
///     try descriptor.handle()
///
/// The descriptor is readable while a message may wait, and after the port's end, when the calls below throw: remove it
/// from the event loop then. It belongs to this object, which must stay in memory while an event loop polls it, and
/// which keeps the port. Do not read from the descriptor, and do not close it.
///
/// Loops, queues and threads may take messages at the same time; each message goes to one of them. Any thread may call
/// all methods. None of them waits.
public final class PortDescriptor<Port: AnyObject & Sendable>: Sendable {
    /// The port, a ``MachPort`` or a ``LocalMessagePort``. There are no descriptors of other types.
    public let port: Port

    /// The number of the descriptor, for the event loop to poll for reading.
    public let fileDescriptor: Int32

    let receiver: Receiver
    let taker: PollTaker

    init(_ port: Port, _ receiver: Receiver) throws(PortError) {
        (self.port, self.receiver) = (port, receiver)
        taker = try receiver.makePollTaker()
        fileDescriptor = taker.descriptor
    }

    deinit { receiver.takers.remove(taker) }

    /// Calls a handler when the port becomes invalid, unless it is cancelled before.
    package func watchEnd(_ handler: @escaping @Sendable () -> Void) -> InvalidationWatch {
        InvalidationWatch(MachPort.SendRight(receiver.channel), handler)
    }

    /// Calls the port's handler or delegate with the messages that wait. When more are left than the limit, the descriptor
    /// stays readable, which is an edge for event loops that are edge-triggered.
    /// - Parameters:
    ///   - limit: The most messages, so that the event loop's other work has its turn.
    ///   - goesOn: Asked after each message; false ends the call.
    /// - Returns: The messages that were handled: 0 when another taker was faster, or the port has no handler.
    /// - Throws: ``PortError``: `isInvalid`, when the port has ended.
    @discardableResult
    public func handle(atMost limit: Int = 64, while goesOn: () -> Bool = { true }) throws(PortError) -> Int {
        try PortError.check("atMost", limit, in: 1...Int.max)
        return try receiver.serve(taker, atMost: limit, while: goesOn)
    }
}

extension PortDescriptor where Port == MachPort {
    /// Makes a descriptor for a port.
    /// - Throws: ``PortError`` when the port is invalid, no descriptor is left, or the process is a fork.
    public convenience init(_ port: MachPort) throws(PortError) { try self.init(port, port.receiver) }

    /// Takes the next message, for a port without a handler; nil when none waits. An event loop that is edge-triggered has
    /// to call it until then.
    /// - Throws: ``PortError``: `isInvalid`, when the port has ended.
    public func receive() throws(PortError) -> MachPort.Message? {
        try receiver.takeNow(taker).map { MachPort.Message($0) }
    }
}
