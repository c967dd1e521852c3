import Ports
import RunLoops

// The messages and replies from the other end.

extension SessionCore {
    /// Takes a message. Called on the session's queue.
    func received(_ request: MessagePortRequest) {
        let message = request.message
        if let refusal = refusal(of: message.sender) { return end(refusal, .atOnce) }
        guard let kind = SessionMessage(rawValue: request.id), kind != .hello else {
            try? request.replyRight?.fail(with: RequestFailure("a session takes no message \(request.id)"))
            return
        }
        let replies = kind.replies(of: message)
        state.withLock { $0.arrivals.add(.init(request: request, kind: kind), after: replies) }
        handleArrivals()
    }

    /// Calls the handlers of all that has come and need not wait. Called on the session's queue.
    func handleArrivals() {
        while let item = state.withLock({ $0.takeArrival() }) {
            switch item {
            case .outcome(let handler): handler()
            case .message(let arrived): handle(arrived.request, arrived.kind)
            }
        }
    }

    private func handle(_ request: MessagePortRequest, _ kind: SessionMessage) {
        switch kind {
        case .message, .sync, .laterMessage, .laterSync:
            let (incoming, counts, observer) = state.withLock { ($0.incoming, $0.counts, $0.observer) }
            let message = XPCReceivedMessage(request, counts: counts, isSync: kind.isSync)
            guard let handler = incoming else {
                return message.fail("the session takes no messages")
            }
            func answer() { if let reply = handler(message) { message.reply(reply) } }
            guard let observer else { return answer() }
            let last = request.message.componentCount - 1
            observer.handling(request.message, context: kind.hasReplies ? last - 1 : last, answer)
        case .end:
            let reason = request.data.map { String(decoding: $0, as: UTF8.self) } ?? ""
            end(XPCRichError("\(peer) cancelled the session: \(reason)"), .afterReplies)
        case .hello, .gap: break
        }
    }

    /// Calls a handler on the session's queue.
    func perform(_ handler: @escaping @Sendable () -> Void) {
        let queue = state.withLock { $0.queue }
        // An inactive session has no queue.
        (queue ?? .global()).async(execute: handler)
    }
}
