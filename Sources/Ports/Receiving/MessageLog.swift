import RunLoopLocks
import RunLoops

/// Tells the log, at the level `trace`, of the messages that a port's takers take. Sits before a port's other tap.
final class MessageLog: MessageTap {
    private struct State {
        var lastNumber = 0
        /// The messages in their handlers, with the next tap's numbers.
        var handled: [Int: (text: String, since: MonotonicInstant, next: Int?)] = [:]
    }

    private let port: SendChannel
    private let next: (any MessageTap)?
    private let state = Lock(State())

    init(_ port: SendChannel, next: (any MessageTap)?) { (self.port, self.next) = (port, next) }

    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int? {
        let text = message.header.text(message.componentCount, size: message.size)
        let sender = message.sender.map { ProcessIdentity(pid: $0.pid).description } ?? "an unknown process"
        log.trace("\(port.identity) took the \(text), of \(sender)")
        let next = next?.taken(message, hasHandler: hasHandler)
        guard hasHandler else { return next }
        return state.withLock { state in
            state.lastNumber += 1
            state.handled[state.lastNumber] = (text, .now, next)
            return state.lastNumber
        }
    }

    func handled(_ number: Int) {
        guard let (text, since, next) = state.withLock({ $0.handled.removeValue(forKey: number) }) else { return }
        if let next { self.next?.handled(next) }
        let time = Int(since.duration(to: .now) / .microseconds(1))
        log.trace("\(port.identity) handled the \(text), in \(time) µs")
    }
}
