/// Sees each message that a port's takers take. Called by the taker, with no lock held.
protocol MessageTap: AnyObject, Sendable {
    /// - Parameter hasHandler: Whether ``handled(_:)`` may be called.
    /// - Returns: The number for ``handled(_:)``, if somebody wants to know when the handler has returned.
    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int?
    func handled(_ number: Int)
}

extension Receiver {
    /// A port and the tap that it has. The handlers call the tap themselves: a port without one does no work for it.
    struct Tapped {
        let tap: any MessageTap
        /// The handlers without the tap.
        var handlers: Handlers
        /// Called with each message that a thread or a task takes.
        let taken: Handler

        init(_ tap: any MessageTap, _ handlers: Handlers) {
            (self.tap, self.handlers) = (tap, handlers)
            taken = { (message: consuming ReceivedMessage) in _ = tap.taken(message, hasHandler: false) }
        }
    }

    /// Sets or removes the tap.
    func setTap(_ tap: (any MessageTap)?) {
        let tap = Log.tellsMessages ? MessageLog(channel, next: tap) : tap
        // Released after the lock.
        var former: Handlers?
        state.withLock { state in
            guard state.lifecycle.isOpen else { return }
            former = state.handlers
            let plain = state.tapped?.handlers ?? state.handlers
            state.tapped = tap.map { Tapped($0, plain) }
            state.handlers = plain.tapped(by: tap, generation: state.handlers.generation + 1)
        }
        withExtendedLifetime(former) {}
    }
}

extension Receiver.Handlers {
    func tapped(by tap: (any MessageTap)?, generation: Int) -> Receiver.Handlers {
        var tapped = self
        tapped.generation = generation
        guard let tap else { return tapped }
        if let message { tapped.message = Self.tapped(message, tap) }
        if let ofDelegate {
            tapped.ofDelegate = {
                guard let handler = ofDelegate() else { return nil }
                return Self.tapped(handler, tap)
            }
        }
        return tapped
    }

    private static func tapped(
        _ handler: @escaping Receiver.Handler, _ tap: any MessageTap
    ) -> Receiver.Handler {
        { (message: consuming ReceivedMessage) in
            let number = tap.taken(message, hasHandler: true)
            handler(message)
            if let number { tap.handled(number) }
        }
    }
}
