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
        PortProcess.current.guardListener(descriptor)
        // A forked child would keep a duplicate, and this process would seem alive.
        source = ThreadRunLoop.Source1(descriptor: descriptor, duplicates: false) { turn in
            var handled = false
            while turn.next() {
                let caller = crl_unforked_accept(descriptor)
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
        // Callers that have hung up take no room from those behind them.
        if crl_has_hung_up(caller) { return crl_unforked_close(caller) }
        let isOneTooMany = peers.count >= Peers.most || peers.callers.load(ordering: .relaxed) >= Peers.mostCallers
        guard !isOneTooMany else { return peers.refuse(caller, credentials, "is one too many") }
        let hasRoom = (try? PortProcess.current.checkReserve()) != nil
        guard hasRoom else { return peers.refuse(caller, credentials, "finds no descriptor left") }
        let timer = TimerBox()
        let hello = ThreadRunLoop.Source1(descriptor: caller, duplicates: false) { turn in
            turn.source.invalidate()
            timer.invalidate()
            peers.callers.subtract(1, ordering: .relaxed)
            // A caller that gave up is not let in: nobody reads at its end, and the end of its call says nothing of it.
            if crl_has_hung_up(caller) { crl_unforked_close(caller) } else { peers.accept(caller) }
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
