/// Observes each message that a port's takers take. Called by the taker, with no lock held.
protocol MessageTap: AnyObject, Sendable {
    /// - Parameter hasHandler: Whether ``handled(_:)`` may be called.
    /// - Returns: The number for ``handled(_:)``, if somebody wants to know when the handler has returned.
    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int?
    func handled(_ number: Int)
}

// The taps of a port.

extension Receiver {
    /// The taps of a port. They are called by wrapped handlers, so a port without taps does no work for them.
    struct Tapped {
        let taps: Taps
        /// The handlers without the tap.
        var handlers: Handlers
        /// Called with each message that a thread or a task takes.
        let taken: Handler

        init(_ taps: Taps, _ handlers: Handlers) {
            (self.taps, self.handlers) = (taps, handlers)
            taken = { (message: consuming ReceivedMessage) in _ = taps.taken(message, hasHandler: false) }
        }
    }

    final class Taps: Sendable {
        let all: [any MessageTap]

        fileprivate init(_ all: [any MessageTap]) { self.all = all }

        fileprivate func taken(_ message: ReceivedMessage, hasHandler: Bool) -> [Int?] {
            all.map { $0.taken(message, hasHandler: hasHandler) }
        }

        fileprivate func handled(_ numbers: [Int?]) {
            for (tap, number) in zip(all, numbers) { if let number { tap.handled(number) } }
        }
    }

    func addTap(_ tap: any MessageTap) { changeTaps { $0.filter { $0 !== tap } + [tap] } }
    func removeTap(_ tap: any MessageTap) { changeTaps { $0.filter { $0 !== tap } } }

    private func changeTaps(_ change: ([any MessageTap]) -> [any MessageTap]) {
        // The old handlers are released after the lock, because their captures may call back into the receiver.
        var former: Handlers?
        state.withLock { state in
            guard state.lifecycle.isOpen else { return }
            former = state.handlers
            let plain = state.tapped?.handlers ?? state.handlers
            let taps = change(state.tapped?.taps.all ?? [])
            state.tapped = taps.isEmpty ? nil : Tapped(Taps(taps), plain)
            state.handlers = plain.tapped(by: state.tapped?.taps, generation: state.handlers.generation + 1)
        }
        withExtendedLifetime(former) {}
    }
}

extension Receiver.Handlers {
    func tapped(by taps: Receiver.Taps?, generation: Int) -> Receiver.Handlers {
        var tapped = self
        tapped.generation = generation
        guard let taps else { return tapped }
        if let message { tapped.message = Self.tapped(message, taps) }
        if let ofDelegate {
            tapped.ofDelegate = {
                guard let handler = ofDelegate() else { return nil }
                return Self.tapped(handler, taps)
            }
        }
        return tapped
    }

    private static func tapped(
        _ handler: @escaping Receiver.Handler, _ taps: Receiver.Taps
    ) -> Receiver.Handler {
        { (message: consuming ReceivedMessage) in
            let numbers = taps.taken(message, hasHandler: true)
            handler(message)
            taps.handled(numbers)
        }
    }
}
