import ZeroMQ

/// A message on its way out: handed over inside the runtime, or a frame for another process.
enum OutgoingMessage: ~Copyable {
    case local(LocalMessage)
    case frame(Frame)

    var size: Int {
        switch self {
        case .local(let message): message.size
        case .frame(let frame): frame.count
        }
    }
}
