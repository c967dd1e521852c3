import CRunLoopShims
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

/// Ports of a loop that another loop drives, or that has a guest.
@Suite(.ownThread) struct DrivenLoopTests {
    fileprivate enum Host: CaseIterable { case driven, guest }

    @Test(arguments: Host.allCases)
    fileprivate func `a port takes each message once, in order`(_ host: Host) throws {
        let (threads, each) = (2, isThreadSanitized ? 5_000 : 50_000)
        let next = Shared([Int](repeating: 0, count: threads))
        let (strays, done) = (Shared(0), Shared(false))
        let port = try MachPort { message in
            let sender = Int(message.id)
            let number = message.withBytes { $0.unsafeLoadUnaligned(as: Int.self) }
            let count = next.withLock { next in
                if number == next[sender] { next[sender] += 1 } else { strays.withLock { $0 += 1 } }
                return next.reduce(0, +)
            }
            if count == threads * each { done.withLock { $0 = true } }
        }
        let right = port.sendRight
        let helpers = (0..<threads).map { sender in
            Helper {
                for number in 0..<each {
                    let bytes = withUnsafeBytes(of: number) { Array($0) }
                    do { try right.send(id: UInt32(sender), bytes: bytes.span.bytes) } catch { return }
                }
            }
        }
        let isDone = onThread {
            let loop = ThreadRunLoop.current
            do {
                try port.schedule(in: loop)
                let deadline = MonotonicInstant.patience
                switch host {
                case .driven:
                    let run = try ThreadRunLoop.DrivenRun()
                    while !done.withLock({ $0 }), !deadline.hasPassed {
                        _ = crl_poll(run.descriptor, -1, min(MonotonicInstant(after: run.prepare()), deadline).timeout)
                        run.dispatch()
                    }
                case .guest:
                    loop.guest = { turn in
                        _ = crl_poll(turn.descriptor, -1, MonotonicInstant(turn.deadline).timeout)
                        return false
                    }
                    while !done.withLock({ $0 }), !deadline.hasPassed {
                        _ = try loop.run(mode: .default, before: .patience)
                    }
                }
            } catch {
                Issue.record(error)
            }
            return done.withLock { $0 }
        }
        #expect(isDone, "\(next.withLock { $0 })")
        #expect(strays.withLock { $0 } == 0)
        // A sender that waits for room goes on, too.
        port.invalidate()
        for helper in helpers { helper.join() }
    }
}
