@preconcurrency import CoreFoundation
import Ports
import RunLoopLocks

/// The callback of a local CFMessagePort, which is called with each message, and its context.
final class MessagePortCallout: @unchecked Sendable {
    // Sound: what changes is behind the lock. The functions are the program's, which has to expect any thread.
    private let callBack: CFMessagePortCallBack?
    private let state: Lock<CFMessagePortContext>
    nonisolated(unsafe) weak var body: MessagePortBody?

    init(_ callBack: CFMessagePortCallBack?, _ context: CFMessagePortContext) {
        self.callBack = callBack
        state = Lock(context)
    }

    /// The context. Its `info` is nil after the port has ended.
    var context: CFMessagePortContext { state.withLock { $0 } }

    /// Retains the context's info. A port that is not made leaves the info to its caller.
    func begin() {
        state.withLock { context in
            if let retain = context.retain { context.info = retain(context.info).map { .init(mutating: $0) } }
        }
    }

    /// Takes the info, hands it over, and releases it.
    func end(_ body: (_ info: UnsafeMutableRawPointer?) -> Void = { _ in }) {
        let (info, release) = state.withLock { context in
            defer { context.info = nil }
            return (context.info, context.release)
        }
        body(info)
        release?(info)
    }

    func handle(_ request: MessagePortRequest) {
        // The info is retained for the callout, because an invalidation on another thread may release it.
        guard let body, let instance = body.instance, body.state.withLock({ $0.isValid }) else { return }
        let context = context
        let info = context.retain.map { $0(context.info).map { .init(mutating: $0) } } ?? context.info
        // On macOS, a callback always gets data.
        let data = (request.data ?? []).cfData
        let answer = callBack?(instance, Int32(bitPattern: request.id), data, info)?.takeRetainedValue()
        if context.retain != nil { context.release?(info) }
        guard let right = request.replyRight else { return }
        do throws(PortError) { try right.reply(with: answer.flatMap(Self.bytes)) } catch { right.noteUnsent(error) }
    }

    /// The bytes of an answer. As on macOS, the asker gets none of one that is too large.
    private static func bytes(of answer: CFData) -> [UInt8]? {
        let size = CFDataGetLength(answer)
        if size <= MessagePortBody.dataLimit { return Array(answer) }
        log.error("a callback of a CFMessagePort returned \(size) bytes: the most are \(MessagePortBody.dataLimit)")
        return nil
    }

    var description: String {
        let context = context
        let address = unsafeBitCast(callBack, to: UnsafeRawPointer?.self)
        var shown = context.info.map { "\($0)" } ?? "(null)"
        if let info = context.info, let text = context.copyDescription?(info)?.takeRetainedValue() {
            shown = String(text)
        }
        return "callout = \(address.map { "\($0)" } ?? "(null)"), context = \(shown)"
    }
}
