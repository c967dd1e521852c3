import Glibc

/// A message that a port has taken.
enum ReceivedMessage: Sendable {
    /// From a sender of the same runtime.
    case local(LocalMessage)
    /// From another process.
    case frame(ReceivedFrame)

    var kind: Wire.Kind {
        switch self {
        case .local(let message): message.kind
        case .frame(let frame): frame.header.kind
        }
    }

    var id: UInt32 {
        switch self {
        case .local(let message): message.id
        case .frame(let frame): frame.header.id
        }
    }

    /// The number of a request or a reply.
    var request: UInt64 {
        switch self {
        case .local(let message): message.request
        case .frame(let frame): frame.header.request
        }
    }

    /// The channel to the port for the answer.
    var replyChannel: SendChannel? {
        switch self {
        case .local(let message): message.replyRight?.channel
        case .frame(let frame): frame.replyChannel
        }
    }

    var components: [LocalMessage.Component] {
        switch self {
        case .local(let message): message.components
        case .frame(let frame): frame.components
        }
    }

    /// The text for each component in a description of the message.
    var componentDescriptions: [String] {
        switch self {
        case .local(let message): message.componentDescriptions
        case .frame(let frame): frame.componentDescriptions
        }
    }

    /// The process that has sent the message; nil when the kernel does not say.
    var sender: MessageSender? {
        switch self {
        case .local: MessageSender(pid: getpid(), uid: geteuid(), gid: getegid())
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

    /// A copy of the first component's bytes; nil without one.
    var data: [UInt8]? {
        if case .local(let message) = self, case .bytes(let bytes) = message.components.first { return bytes }
        var data: [UInt8]?
        readBytes(ofComponent: 0) { data = Array($0) }
        return data
    }

    /// Tells the asker of a request that no reply follows.
    func refuse() {
        if kind == .request { replyChannel?.refuse(request) }
    }
}
