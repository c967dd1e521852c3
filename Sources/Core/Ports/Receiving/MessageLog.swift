import RunLoopLocks
import RunLoops

/// Logs, at the level `trace`, the messages that a port's takers take.
final class MessageLog: MessageTap {
    private struct State {
        var lastNumber = 0
        /// The messages in their handlers.
        var handled: [Int: (text: String, since: MonotonicInstant)] = [:]
    }

    private let port: SendChannel
    private let requests: (any TakenRequests)?
    private let state = Lock(State())

    init(_ port: SendChannel, _ requests: (any TakenRequests)?) { (self.port, self.requests) = (port, requests) }

    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int? {
        let text = message.header.text(
            message.componentCount, size: message.size, name: requests?.name(ofRequests: message.header.id))
        let sender = message.sender.map { ProcessIdentity(pid: $0.pid).description } ?? "an unknown process"
        log.trace("\(port.identity) took the \(text), of \(sender)")
        guard hasHandler else { return nil }
        return state.withLock { state in
            state.lastNumber += 1
            state.handled[state.lastNumber] = (text, .now)
            return state.lastNumber
        }
    }

    func handled(_ number: Int) {
        guard let (text, since) = state.withLock({ $0.handled.removeValue(forKey: number) }) else { return }
        let time = Int(since.duration(to: .now) / .microseconds(1))
        log.trace("\(port.identity) handled the \(text), in \(time) µs")
    }
}
