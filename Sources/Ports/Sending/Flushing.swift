import Glibc
import RunLoops

// The end of a runtime's channels: sent messages are safe when their ports have read them.

extension ChannelTable {
    /// Ends all channels, and waits until the ports have read what was sent. libzmq may use the milliseconds to flush.
    func close(before deadline: MonotonicInstant, linger milliseconds: Int32) {
        let open = all
        let paths = open.map { $0.stopSending() }
        let found = Dictionary(grouping: LocalSocket.connections(to: Set(paths.compactMap(\.self))), by: \.path)
        var leaving: [LeavingChannel] = []
        for (channel, path) in zip(open, paths) {
            let connections = path.flatMap { found[$0] } ?? []
            if connections.isEmpty { channel.close(linger: milliseconds) }
            leaving += connections.map { LeavingChannel(channel: channel, connection: $0) }
        }
        while !leaving.isEmpty, !deadline.hasPassed {
            leaving = leaving.compactMap { $0.next(linger: milliseconds) }
            // The kernel has no event for what we wait for.
            usleep(500)
        }
        for one in leaving { one.end(linger: milliseconds) }
    }
}

/// A channel that ends when its port has read what was sent.
private struct LeavingChannel {
    let channel: SendChannel
    var connection: LocalSocket.Connection
    var isClosed = false

    /// The channel after its next step; nil when the port has read everything, or the connection has ended.
    consuming func next(linger milliseconds: Int32) -> Self? {
        // Without a descriptor to keep it by, the connection stays open until another one has ended.
        if connection.keep() {
            if !isClosed, connection.hasUnread { return self }
            // At the end of a socket libzmq writes once more, and loses what the kernel does not take.
            if !isClosed { channel.close(linger: milliseconds) }
            isClosed = true
        }
        // libzmq closes its descriptor after the last byte. A receiver with a full queue loses unread bytes at the end
        // of the connection.
        if connection.isOpen || connection.hasUnread { return self }
        end(linger: milliseconds)
        return nil
    }

    func end(linger milliseconds: Int32) {
        channel.close(linger: milliseconds)
        connection.drop()
    }
}
