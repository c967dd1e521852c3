/// Calls a handler when the port of a right becomes invalid, or at once when the port is invalid already. In contrast to
/// ``MachPort/SendRight/onInvalidation(_:)``, it can be cancelled.
package final class InvalidationWatch: Waiter {
    private let channel: SendChannel
    private let handler: @Sendable () -> Void

    /// The handler must neither block the thread that calls it nor end it.
    package init(_ right: MachPort.SendRight, _ handler: @escaping @Sendable () -> Void) {
        (channel, self.handler) = (right.channel, handler)
        guard !Fork.isChild else { return }
        channel.invalidated.add(self)
        if channel.invalidated.value == nil, !channel.isWatched { channel.watch() }
    }

    /// The handler may be running.
    package func cancel() { if !Fork.isChild { channel.invalidated.remove(self) } }

    func wake() { handler() }
}
