@preconcurrency import CoreFoundation
import Ports

/// The callback of a local CFMessagePort, which is called with each message, and its context.
final class MessagePortCallout: @unchecked Sendable {
    // Sound: the function is the program's, which has to expect any thread.
    private let callBack: CFMessagePortCallBack?
    let info: ContextInfo
    nonisolated(unsafe) weak var body: MessagePortBody?

    init(_ callBack: CFMessagePortCallBack?, _ context: CFMessagePortContext) {
        self.callBack = callBack
        info = ContextInfo(context)
    }

    func handle(_ request: MessagePortRequest) {
        guard let body, let instance = body.instance, body.state.withLock({ $0.isValid }) else { return }
        // On macOS, a callback always gets data.
        let data = (request.data ?? []).cfData
        let answer = info.use { callBack?(instance, Int32(bitPattern: request.id), data, $0)?.takeRetainedValue() }
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

    var description: String { info.description(calling: callBack) }
}
