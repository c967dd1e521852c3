extension LocalMessagePort: PollablePort {}

extension PortDescriptor where Port == LocalMessagePort {
    /// Makes a descriptor for a message port. The corresponding CF function is `CFMessagePortCreateRunLoopSource`.
    /// - Throws: ``PortError`` when the port is invalid, no descriptor is left, or the process is a fork.
    public convenience init(_ port: LocalMessagePort) throws(PortError) { try self.init(port, port.port.receiver) }

    /// Takes the next request, for a port without a handler; nil when none waits. An event loop that is edge-triggered has
    /// to call it until then.
    /// - Throws: ``PortError``: `isInvalid`, when the port has ended.
    public func receive() throws(PortError) -> MessagePortRequest? {
        guard let message = try receiver.takeNow(service, takesRequests: true) else { return nil }
        return MessagePortRequest(message, port.taken)
    }
}
