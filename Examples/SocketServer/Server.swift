import Glibc
import RunLoops

/// Accepts connections on the main thread's loop. What a client sends comes back in capitals.
@MainActor
final class Server {
    private let path: String
    private var listening: ThreadRunLoop.Source1?
    /// Keeps the connections, each until it is closed.
    private var connections: [ObjectIdentifier: Connection] = [:]

    init(path: String) throws {
        self.path = path
        let descriptor = try listeningSocket(path)
        // The source closes the socket when it is invalidated, as with `kCFSocketCloseOnInvalidate`.
        let source = ThreadRunLoop.Source1.descriptor(
            descriptor, closesOnInvalidation: true, label: "accept",
            handler: ThreadRunLoop.mainActor { [weak self] source, _ in self?.acceptOne(of: source) })
        listening = source
        try ThreadRunLoop.main.add(source)
    }

    /// Accepts one connection. The loop calls again as long as there are more.
    private func acceptOne(of source: ThreadRunLoop.Source1) {
        let descriptor = accept(source.descriptor, nil, nil)
        guard descriptor >= 0 else {
            // A client that has gone meanwhile is no error.
            if errno == EMFILE || errno == ENFILE { pause(source) }
            return
        }
        // What is accepted inherits neither from the listening socket.
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        do {
            let connection = try Connection(descriptor) { [weak self] connection in self?.ended(connection) }
            connections[ObjectIdentifier(connection)] = connection
            print("Server: a client has connected. I have \(connections.count).")
        } catch {
            print("Server: I cannot serve a client: \(error)")
        }
    }

    /// Without a free descriptor, the loop would call again at once, and in vain.
    private func pause(_ source: ThreadRunLoop.Source1) {
        print("Server: no descriptor is free. I accept again in a second.")
        ThreadRunLoop.main.remove(source)
        _ = try? ThreadRunLoop.main.perform(after: .seconds(1)) { _ = try? ThreadRunLoop.main.add(source) }
    }

    private func ended(_ connection: Connection) {
        connections[ObjectIdentifier(connection)] = nil
        print("Server: a client is done, after \(connection.received) bytes. I have \(connections.count).")
    }

    func close() {
        listening?.invalidate()
        for connection in connections.values { connection.close() }
        connections = [:]
        unlink(path)
    }
}
