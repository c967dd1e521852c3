import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// Accepts control connections of other processes at one control socket.
final class ControlListener: Sendable {
    private let connections: ControlConnectionTable
    private let descriptor: Int32
    private let source = Lock<ThreadRunLoop.Source1?>(nil)

    /// The time that a caller has for its hello.
    private static let patience = Duration.seconds(5)
    private static let noDescriptor = "no descriptor is left"

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
            awaitHello(of: caller, on: turn.loop)
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

    private func awaitHello(of caller: Int32, on loop: ThreadRunLoop) {
        let connections = connections
        let credentials = PeerCredentials(of: caller)
        guard credentials?.isOwnUser == true else {
            return connections.refuse(caller, credentials, "it belongs to another user")
        }
        // A caller that has hung up must take no room from the next ones.
        if crl_has_hung_up(caller) { return crl_unforked_close(caller) }
        guard connections.hasRoom else {
            return connections.refuse(caller, credentials, "there are too many connections")
        }
        guard (try? DescriptorReserve.check()) != nil else {
            return connections.refuse(caller, credentials, Self.noDescriptor)
        }
        let waiting = Caller(caller)
        let hello = ThreadRunLoop.Source1(descriptor: caller, duplicates: false) { turn in
            turn.source.invalidate()
            connections.callers.subtract(1, ordering: .relaxed)
            let caller = waiting.take()
            // A connection whose caller has hung up would prove nothing.
            if crl_has_hung_up(caller) { crl_unforked_close(caller) } else { connections.accept(caller) }
            return true
        }
        guard (try? loop.add(hello)) != nil else {
            return connections.refuse(waiting.take(), credentials, Self.noDescriptor)
        }
        connections.callers.add(1, ordering: .relaxed)
        connections.housekeeping.perform(after: Self.patience) { [weak hello] in
            guard let hello, hello.isValid else { return }
            hello.invalidate()
            connections.callers.subtract(1, ordering: .relaxed)
            connections.refuse(waiting.take(), credentials, "it sent no hello")
        }
    }

    deinit { if !Fork.isChild { close() } }

    func close() {
        guard let source = source.withLock({ $0.take() }) else { return }
        source.invalidate()
        crl_unforked_close(descriptor)
    }
}

/// The descriptor of a caller without a hello. The end of the runtime releases it.
private final class Caller: Sendable {
    private let descriptor: Atomic<Int32>

    init(_ descriptor: Int32) { self.descriptor = Atomic(descriptor) }

    deinit {
        let descriptor = take()
        if descriptor >= 0 { crl_unforked_close(descriptor) }
    }

    func take() -> Int32 { descriptor.exchange(-1, ordering: .relaxed) }
}
