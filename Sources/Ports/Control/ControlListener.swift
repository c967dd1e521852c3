import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops

/// Accepts control connections of other processes at one control socket.
final class ControlListener: Sendable {
    private let connections: ControlConnectionTable
    private let descriptor: Int32
    private let source = Lock<ThreadRunLoop.Source1?>(nil)

    /// Takes over the listening descriptor.
    init(_ descriptor: Int32, _ connections: ControlConnectionTable) throws(PortError) {
        self.connections = connections
        self.descriptor = descriptor
        AcceptGuard.protect(descriptor, most: ControlConnectionTable.mostAccepted)
        // A forked child would keep a duplicate open, and a dead parent would seem alive.
        let source = ThreadRunLoop.Source1(descriptor: descriptor, duplicates: false) { [weak self] turn in
            self?.acceptCallers(&turn) ?? false
        }
        self.source.withLock { $0 = source }
        do throws(PortError) {
            try connections.housekeeping.add(source)
        } catch {
            close()
            throw error
        }
    }

    private func acceptCallers(_ turn: inout ThreadRunLoop.Turn) -> Bool {
        var handled = false
        while turn.next() {
            let caller = crl_unforked_accept(descriptor)
            guard caller >= 0 else {
                // No descriptor is left: pause instead of spinning.
                if errno == EMFILE || errno == ENFILE || errno == ENOMEM { Self.pause(turn) }
                break
            }
            handled = true
            awaitHello(of: ControlSocket(caller), on: turn.loop)
        }
        return handled
    }

    private static func pause(_ turn: ThreadRunLoop.Turn) {
        let (loop, source) = (turn.loop, turn.source)
        loop.remove(source)
        loop.add(
            ThreadRunLoop.Timer(after: .milliseconds(100), repeats: true) { timer in
                if (try? loop.add(source)) != nil { timer.invalidate() }
            })
    }

    private func awaitHello(of caller: ControlSocket, on loop: ThreadRunLoop) {
        let connections = connections
        let credentials = PeerCredentials(of: caller.descriptor)
        guard credentials?.isOwnUser == true else {
            return connections.refuse(credentials, "it belongs to another user")
        }
        // A caller that has hung up must take no room from the next ones.
        if caller.hasHungUp { return }
        guard connections.hasRoom else { return connections.refuse(credentials, "there are too many connections") }
        // The end of the runtime releases the source, and with it the caller's socket.
        let hello = ThreadRunLoop.Source1(descriptor: caller.descriptor, duplicates: false) { turn in
            turn.source.invalidate()
            connections.callers.subtract(1, ordering: .relaxed)
            // A connection whose caller has hung up would prove nothing.
            if !caller.hasHungUp { connections.accept(caller) }
            return true
        }
        guard (try? DescriptorReserve.check()) != nil, (try? loop.add(hello)) != nil else {
            return connections.refuse(credentials, "no descriptor is left")
        }
        connections.callers.add(1, ordering: .relaxed)
        connections.housekeeping.perform(after: .seconds(5)) { [weak hello] in
            // This process may have been stopped meanwhile. What has come is read next.
            guard let hello, hello.isValid, crl_poll(hello.descriptor, -1, 0) <= 0 else { return }
            hello.invalidate()
            connections.callers.subtract(1, ordering: .relaxed)
            connections.refuse(credentials, "it sent no hello")
        }
    }

    deinit { if !Fork.isChild { close() } }

    func close() {
        guard let source = source.withLock({ $0.take() }) else { return }
        source.invalidate()
        crl_unforked_close(descriptor)
    }
}
