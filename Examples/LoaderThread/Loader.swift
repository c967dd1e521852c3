import Glibc
import Ports
import RunLoops

/// Loads from any number of connections on one thread, which knows no delegate: it sends what it reads to the port of the
/// load, which the delegate's loop serves.
final class Loader: Sendable {
    private let thread: RunLoopThread

    init() throws(RunLoopError) { thread = try RunLoopThread(name: "loader") }

    /// Starts to load from a connection, which the loader closes at the end. The calling thread's loop tells the delegate.
    func load(_ name: String, from connection: Int32, delegate: any LoaderDelegate) throws -> Load {
        // When so many pieces wait, the loader's thread does: a slow delegate slows the sender down.
        let port = try MachPort(queueLimit: 100)
        let load = Load(name: name, port: port, delegate: delegate)
        port.setHandler(ThreadRunLoop.local { message in load.handle(message) })
        try port.schedule(in: .current)

        let right = port.sendRight
        let source = ThreadRunLoop.Source1.descriptor(connection, closesOnInvalidation: true, label: name) {
            source, _ in
            if !Self.sendPiece(from: connection, to: right) { source.invalidate() }
        }
        // The end of the load, by its delegate or with its thread, ends the reading.
        right.onInvalidation { source.invalidate() }
        do {
            try thread.loop.add(source)
        } catch {
            load.cancel()
            throw error
        }
        return load
    }

    /// Called on the loader's thread. False when no more follows.
    private static func sendPiece(from connection: Int32, to right: MachPort.SendRight) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = read(connection, &bytes, bytes.count)
        if count < 0, errno == EINTR || errno == EAGAIN { return true }
        let message =
            if count > 0 {
                MachPort.Message(id: Load.MessageID.data, bytes: bytes[..<count])
            } else if count == 0 {
                MachPort.Message(id: Load.MessageID.finished)
            } else {
                MachPort.Message(id: Load.MessageID.failed, bytes: Array(String(cString: strerror(errno)).utf8))
            }
        // The port is invalid when the load was cancelled.
        return (try? right.send(message)) != nil && count > 0
    }
}
