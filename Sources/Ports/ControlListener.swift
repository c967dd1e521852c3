import CRunLoopShims
import Glibc
import RunLoops

/// Lets other processes in at a control socket.
final class ControlListener: Sendable {
    private let source: ThreadRunLoop.Source1

    /// How long a caller may take to say hello.
    private static let patience = Duration.seconds(5)

    /// Takes the listening descriptor over.
    init(_ descriptor: Int32) throws(PortError) {
        let loop = try PortProcess.current.housekeepingLoop()
        // Else a forked child would keep us seeming alive.
        _ = crl_close_in_child(descriptor)
        source = ThreadRunLoop.Source1(descriptor: descriptor) { turn in
            var handled = false
            while turn.next() {
                let caller = crl_accept(descriptor)
                guard caller >= 0 else {
                    // No descriptor left: a rest, in which some may be closed, instead of a spin.
                    if errno == EMFILE || errno == ENFILE || errno == ENOMEM { Self.rest(turn) }
                    break
                }
                handled = true
                Self.await(caller, on: turn.loop)
            }
            return handled
        }
        try runLoop { () throws(RunLoopError) in try loop.add(source) }
    }

    private static func rest(_ turn: ThreadRunLoop.Turn) {
        let (loop, source) = (turn.loop, turn.source)
        loop.remove(source)
        loop.add(ThreadRunLoop.Timer(after: .milliseconds(100)) { timer in
            if (try? loop.add(source)) == nil { timer.nextFireDate = .now + .milliseconds(100) }
        })
    }

    /// Waits for the caller's hello.
    private static func await(_ caller: Int32, on loop: ThreadRunLoop) {
        let peers = PortProcess.current.peers
        let credentials = LocalSocket.credentials(of: caller)
        guard credentials?.uid == geteuid() else { return peers.refuse(caller, credentials, "is another user's") }
        guard peers.count < Peers.most else { return peers.refuse(caller, credentials, "is one too many") }
        let hello = ThreadRunLoop.Source1(descriptor: caller) { turn in
            turn.source.invalidate()
            var byte: UInt8 = 0
            // Whoever only wanted to know whether we are alive has gone already.
            if recv(caller, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0 {
                peers.accept(caller)
            } else {
                close(caller)
            }
            return true
        }
        guard (try? loop.add(hello)) != nil else { return peers.refuse(caller, credentials, "finds no descriptor left") }
        loop.add(
            ThreadRunLoop.Timer(after: patience) { _ in
                guard hello.isValid else { return }
                hello.invalidate()
                peers.refuse(caller, credentials, "says no hello")
            })
    }
}
