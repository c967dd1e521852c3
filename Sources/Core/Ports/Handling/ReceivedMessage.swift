import Glibc

/// A message that a port has taken.
enum ReceivedMessage: Sendable {
    typealias Handler = @Sendable (consuming ReceivedMessage) -> Void

    /// From a sender of the same runtime, or plain bytes from a ring.
    case local(LocalMessage)
    /// From another process.
    case frame(ReceivedFrame)

    /// The kind, the id, and the number of a request or a reply.
    var header: FrameHeader {
        switch self {
        case .local(let message): message.header
        case .frame(let frame): frame.header
        }
    }

    /// The channel to the port for the answer.
    var replyChannel: SendChannel? {
        switch self {
        case .local(let message): message.replyRight
        case .frame(let frame): frame.replyChannel
        }
    }

    var componentCount: Int {
        switch self {
        case .local(let message): message.componentCount
        case .frame(let frame): frame.header.count
        }
    }

    /// The size as a frame, in bytes.
    var size: Int {
        switch self {
        case .local(let message): message.size
        case .frame(let frame): frame.size
        }
    }

    var components: [LocalMessage.Component] {
        switch self {
        case .local(let message): message.components
        case .frame(let frame): frame.components
        }
    }

    var sender: SenderCredentials? {
        switch self {
        case .local(let message): message.sender ?? SenderCredentials(pid: getpid(), uid: geteuid(), gid: getegid())
        case .frame(let frame): frame.sender
        }
    }

    /// Lets `body` read a component of bytes in place. Does not call `body` for a port, or past the last component.
    @inline(__always) func readBytes(ofComponent index: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        switch self {
        case .local(let message): message.readBytes(ofComponent: index, body)
        case .frame(let frame): frame.readBytes(ofComponent: index, body)
        }
    }

    /// A component of another kind than bytes, which ``readBytes(ofComponent:_:)`` reads; nil behind the last component.
    func component(_ index: Int) -> LocalMessage.Component? {
        switch self {
        case .local(let message): message.component(index)
        case .frame(let frame): frame.component(index)
        }
    }

    /// Tells the asker of a request that nobody handles it. Not inlined, so that the way of a message stays short.
    @inline(never) func refuse() {
        guard header.kind == .request, let replyChannel else { return }
        replyChannel.channels.refusedCount.add(1, ordering: .relaxed)
        replyChannel.tell(.refused(header.request))
        replyChannel.channels.control.events?.requestRefused(header.request, of: replyChannel.id.incarnation)
    }
}
