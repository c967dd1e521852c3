/// Observes each message that a port's takers take. Called by the taker, with no lock held.
protocol MessageTap: AnyObject, Sendable {
    /// - Parameter hasHandler: Whether ``handled(_:)`` may be called.
    /// - Returns: The number for ``handled(_:)``, if somebody wants to know when the handler has returned.
    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int?
    func handled(_ number: Int)
}

/// The handlers of a port and the taps around them. A port without taps does no work for taps.
struct TappedHandlers: Sendable {
    /// The handlers that takers call.
    let current: PortHandlers
    /// The handlers without the taps.
    private let plain: PortHandlers
    private let taps: Taps
    /// Called with each message that a thread or a task takes; nil without taps.
    let taken: ReceivedMessage.Handler?

    init(_ plain: PortHandlers) { self.init(plain, Taps(all: [])) }

    private init(_ plain: PortHandlers, _ taps: Taps, after generation: Int = -1) {
        (self.plain, self.taps) = (plain, taps)
        current = plain.tapped(by: taps, generation: generation + 1)
        taken = taps.all.isEmpty ? nil : taps.noteTaken
    }

    func with(_ plain: PortHandlers) -> Self { Self(plain, taps, after: current.generation) }

    func adding(_ tap: any MessageTap) -> Self { with(others(than: tap) + [tap]) }
    func removing(_ tap: any MessageTap) -> Self { with(others(than: tap)) }

    private func others(than tap: any MessageTap) -> [any MessageTap] { taps.all.filter { $0 !== tap } }
    private func with(_ taps: [any MessageTap]) -> Self { Self(plain, Taps(all: taps), after: current.generation) }

    /// The taps, for tests.
    var allTaps: [any MessageTap] { taps.all }
}

private struct Taps: Sendable {
    let all: [any MessageTap]

    func taken(_ message: ReceivedMessage, _ hasHandler: Bool) -> [Int?] {
        all.map { $0.taken(message, hasHandler: hasHandler) }
    }

    func noteTaken(_ message: consuming ReceivedMessage) { _ = taken(message, false) }

    func around(_ handler: @escaping ReceivedMessage.Handler) -> ReceivedMessage.Handler {
        { (message: consuming ReceivedMessage) in
            let numbers = taken(message, true)
            handler(message)
            for (tap, number) in zip(all, numbers) { if let number { tap.handled(number) } }
        }
    }
}

extension PortHandlers {
    fileprivate func tapped(by taps: Taps, generation: Int) -> PortHandlers {
        var tapped = self
        tapped.generation = generation
        guard !taps.all.isEmpty else { return tapped }
        tapped.message = message.map(taps.around)
        if let ofDelegate { tapped.ofDelegate = { ofDelegate().map(taps.around) } }
        return tapped
    }
}
