import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// Lets other processes in at a control socket.
final class ControlListener: Sendable {
    private let source: ThreadRunLoop.Source1

    /// How long a caller may take to say hello.
    private static let patience = Duration.seconds(5)

    /// Takes the listening descriptor over.
    init(_ descriptor: Int32) throws(PortError) {
        let loop = try PortProcess.current.housekeepingLoop()
        // Else a forked child would keep us seeming alive; so would a duplicate.
        _ = crl_close_in_child(descriptor)
        PortProcess.current.guardListener(descriptor)
        source = ThreadRunLoop.Source1(descriptor: descriptor, duplicates: false) { turn in
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
        loop.add(
            ThreadRunLoop.Timer(after: .milliseconds(100), repeats: true) { timer in
                if (try? loop.add(source)) != nil { timer.invalidate() }
            })
    }

    /// Waits for the caller's hello.
    private static func await(_ caller: Int32, on loop: ThreadRunLoop) {
        let peers = PortProcess.current.peers
        let credentials = LocalSocket.credentials(of: caller)
        guard credentials?.uid == geteuid() else { return peers.refuse(caller, credentials, "is another user's") }
        // Those who have gone take no room from those who wait behind them.
        if hasGone(caller) { return _ = close(caller) }
        let isOneTooMany = peers.count >= Peers.most || peers.callers.load(ordering: .relaxed) >= Peers.mostCallers
        guard !isOneTooMany else { return peers.refuse(caller, credentials, "is one too many") }
        let hasRoom = (try? PortProcess.current.checkReserve()) != nil
        guard hasRoom else { return peers.refuse(caller, credentials, "finds no descriptor left") }
        let timer = TimerBox()
        let hello = ThreadRunLoop.Source1(descriptor: caller, duplicates: false) { turn in
            turn.source.invalidate()
            timer.invalidate()
            peers.callers.subtract(1, ordering: .relaxed)
            if hasGone(caller) { close(caller) } else { peers.accept(caller) }
            return true
        }
        guard (try? loop.add(hello)) != nil else {
            return peers.refuse(caller, credentials, "finds no descriptor left")
        }
        peers.callers.add(1, ordering: .relaxed)
        timer.start(
            ThreadRunLoop.Timer(after: patience) { _ in
                guard hello.isValid else { return }
                hello.invalidate()
                peers.callers.subtract(1, ordering: .relaxed)
                peers.refuse(caller, credentials, "says no hello")
            }, on: loop)
    }

    /// Whether the caller, who may only have wanted to know whether we are alive, has hung up.
    private static func hasGone(_ caller: Int32) -> Bool {
        var byte: UInt8 = 0
        let count = recv(caller, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
        return count == 0 || (count < 0 && errno != EAGAIN)
    }

    /// The caller's hello ends its timer, which in turn ends the wait for the hello.
    private final class TimerBox: Sendable {
        private let timer = Mutex<ThreadRunLoop.Timer?>(nil)

        func start(_ started: ThreadRunLoop.Timer, on loop: ThreadRunLoop) {
            timer.withLock { $0 = started }
            loop.add(started)
        }

        func invalidate() {
            let ended = timer.withLock { timer in
                defer { timer = nil }
                return timer
            }
            ended?.invalidate()
        }
    }
}
