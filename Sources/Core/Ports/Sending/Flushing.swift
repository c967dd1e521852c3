import Glibc
import RunLoops

// The end of a runtime's channels. Sent messages are safe when their ports have read them.

extension ChannelTable {
    /// Ends all channels, and waits until the ports have read the sent messages, for each channel up to its deadline.
    /// libzmq may use as much time to flush.
    func close(before deadline: (SendChannel) -> MonotonicInstant) {
        noteEnd()
        let open = all
        let paths = open.map { $0.stopSending() }
        let found = Dictionary(grouping: LocalSocket.connections(to: Set(paths.compactMap(\.self))), by: \.path)
        var leaving: [LeavingChannel] = []
        for (channel, path) in zip(open, paths) {
            let connections = path.flatMap { found[$0] } ?? []
            let end = deadline(channel)
            if connections.isEmpty { channel.close(linger: end.milliseconds) }
            leaving += connections.map { LeavingChannel(channel: channel, connection: $0, deadline: end) }
        }
        while true {
            leaving = leaving.compactMap { $0.next() }
            if leaving.isEmpty { return }
            // The kernel has no event for this.
            usleep(500)
        }
    }
}

extension MonotonicInstant {
    /// The time until then, for libzmq.
    fileprivate var milliseconds: Int32 {
        Int32(clamping: max(0, Int(MonotonicInstant.now.duration(to: self) / .milliseconds(1))))
    }
}

/// A channel that ends when its port has read the sent messages.
private struct LeavingChannel {
    let channel: SendChannel
    var connection: LocalSocket.Connection
    let deadline: MonotonicInstant
    var isClosed = false

    /// The channel after its next step; nil when the port has read everything, the connection has ended, or the time is
    /// over.
    consuming func next() -> Self? {
        if deadline.hasPassed {
            end()
            return nil
        }
        // Without a free descriptor, the connection cannot be kept yet. Another one may end soon.
        if connection.keep() {
            if !isClosed, connection.hasUnread { return self }
            // When a socket is closed, libzmq writes once more, and loses the bytes that the kernel does not take. So
            // the socket is closed only when the peer has read everything.
            if !isClosed { channel.close(linger: deadline.milliseconds) }
            isClosed = true
        }
        // libzmq closes its descriptor after the last byte. A receiver with a full queue loses unread bytes when the
        // connection ends, so the copy stays open until they are read.
        if connection.isOpen || connection.hasUnread { return self }
        end()
        return nil
    }

    func end() {
        channel.close(linger: deadline.milliseconds)
        connection.drop()
    }
}
