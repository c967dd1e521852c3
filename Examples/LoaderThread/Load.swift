import Ports

/// What a load comes to, told on the thread that has started the load.
protocol LoaderDelegate: AnyObject {
    func load(_ load: Load, didReceive data: [UInt8])
    func loadDidFinish(_ load: Load)
    func load(_ load: Load, didFailWith reason: String)
}

/// A load in progress, and the delegate's end of it. It belongs to the thread that has started it.
final class Load {
    /// The ids of the messages from the loader's thread.
    enum MessageID {
        static let data: UInt32 = 1
        static let finished: UInt32 = 2
        static let failed: UInt32 = 3
    }

    let name: String
    private let port: MachPort
    /// Kept until the load ends, as NSURLConnection does: then the port releases its handler, which has this object.
    private let delegate: any LoaderDelegate

    init(name: String, port: MachPort, delegate: any LoaderDelegate) {
        (self.name, self.port, self.delegate) = (name, port, delegate)
    }

    /// Ends the load. The delegate hears nothing more, not even of what was read already.
    func cancel() { port.invalidate() }

    func handle(_ message: MachPort.Message) {
        let data = message.withBytes { bytes in bytes.withUnsafeBytes { Array($0) } } ?? []
        switch message.id {
        case MessageID.data: delegate.load(self, didReceive: data)
        case MessageID.finished:
            port.invalidate()
            delegate.loadDidFinish(self)
        case MessageID.failed:
            port.invalidate()
            delegate.load(self, didFailWith: String(decoding: data, as: UTF8.self))
        default: break
        }
    }
}
