import CRunLoopShims
import Glibc
import RunLoops

/// Accepts control connections of other processes at one control socket.
final class ControlListener: Sendable {
    /// Owns the socket, which closes with the invalidation of the source.
    private let source: ThreadRunLoop.Source1

    init(_ socket: ControlSocket, _ connections: ControlConnectionTable) throws(PortError) {
        AcceptGuard.protect(socket.descriptor, most: ControlConnectionTable.mostAccepted)
        // No duplicate, because a forked child would keep it open, and a dead parent would seem alive.
        source = ThreadRunLoop.Source1(descriptor: socket.descriptor, duplicates: false) { turn in
            var handled = false
            while turn.next() {
                let caller = crl_unforked_accept(socket.descriptor)
                guard caller >= 0 else {
                    // Pauses, because a source that stays ready would spin while no descriptor is left.
                    if errno == EMFILE || errno == ENFILE || errno == ENOMEM { Self.pause(turn) }
                    break
                }
                handled = true
                Self.awaitHello(of: ControlSocket(caller), connections, on: turn.loop)
            }
            return handled
        }
        try connections.housekeeping.add(source)
    }

    private static func pause(_ turn: ThreadRunLoop.Turn) {
        let (loop, source) = (turn.loop, turn.source)
        loop.remove(source)
        _ = try? loop.add(
            ThreadRunLoop.Timer(after: .milliseconds(100), repeats: true) { timer in
                if (try? loop.add(source)) != nil { timer.invalidate() }
            })
    }

    private static func awaitHello(
        of caller: ControlSocket, _ connections: ControlConnectionTable, on loop: ThreadRunLoop
    ) {
        let credentials = PeerCredentials(of: caller.descriptor)
        guard credentials?.isOwnUser == true else {
            return connections.refuse(credentials, "it belongs to another user")
        }
        // Callers that have hung up do not count against the limit, so that they keep no live caller out.
        if caller.hasHungUp { return }
        guard connections.hasRoom else { return connections.refuse(credentials, "there are too many connections") }
        // Thousands of callers may connect in a second. A caller that has sent its hello invalidates this timer at
        // once, so that nothing of it stays for five seconds.
        let patience = ThreadRunLoop.Timer(after: .seconds(5)) { _ in
            // This process may have been stopped meanwhile. A hello that has arrived is read next.
            guard crl_poll(caller.descriptor, -1, 0) <= 0 else { return }
            connections.refuse(credentials, "it sent no hello")
            caller.cut()
        }
        // The end of the runtime releases source and timer, and with them the socket of the caller.
        let hello = ThreadRunLoop.Source1(descriptor: caller.descriptor, duplicates: false) { turn in
            turn.source.invalidate()
            patience.invalidate()
            connections.callers.subtract(1, ordering: .relaxed)
            // A caller that has hung up gets no connection, because the end of that connection would not prove the
            // caller's end.
            if !caller.hasHungUp { connections.accept(caller) }
            return true
        }
        guard (try? connections.sockets.checkReserve()) != nil, (try? loop.add(hello)) != nil else {
            return connections.refuse(credentials, "no descriptor is left")
        }
        connections.callers.add(1, ordering: .relaxed)
        _ = try? loop.add(patience)
    }

    deinit { close() }

    func close() { source.invalidate() }
}
