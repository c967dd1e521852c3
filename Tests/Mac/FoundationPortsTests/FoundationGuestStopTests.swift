import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

/// `CFRunLoopStop` in callouts of Foundation's, while our loop has work of its own.
@Suite(.ownThread) struct FoundationGuestStopTests {
    /// What calls `CFRunLoopStop`.
    enum Caller: CaseIterable {
        case source0, port, timer, block

        /// Has Foundation call a closure once. Returns what is to be kept.
        func arrange(_ body: @escaping () -> Void) -> Any {
            // Foundation calls the closure on this thread.
            nonisolated(unsafe) let body = body
            switch self {
            case .source0:
                let source = Signal(body)
                source.raise()
                return source
            case .port:
                let (port, receiver) = (NSMachPort(), Receiver { _ in body() })
                port.setDelegate(receiver)
                RunLoop.current.add(port, forMode: .default)
                #expect(port.send(1))
                return [port, receiver]
            case .timer:
                let timer = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in body() }
                RunLoop.current.add(timer, forMode: .default)
                return timer
            case .block:
                RunLoop.current.perform { body() }
                return ()
            }
        }
    }

    @Test(arguments: Caller.allCases) func `a stop counts while our loop is busy`(caller: Caller) {
        let result = run { loop in
            // Signals itself for ever: our loop does not sleep.
            let source = Shared<ThreadRunLoop.Source0?>(nil)
            let made = ThreadRunLoop.Source0 { source.withLock { $0 }?.signal() }
            source.withLock { $0 = made }
            try loop.add(made)
            made.signal()
            return caller.arrange { CFRunLoopStop(CFRunLoopGetCurrent()) }
        }
        #expect(result == .stopped)
    }

    @Test(arguments: Caller.allCases) func `a stop counts that comes with an event of ours`(caller: Caller) {
        let result = run { loop in
            caller.arrange {
                try? loop.perform {}
                CFRunLoopStop(CFRunLoopGetCurrent())
            }
        }
        #expect(result == .stopped)
    }

    @Test(arguments: Caller.allCases) func `a stop counts among many wake-ups of ours`(caller: Caller) throws {
        for _ in 0..<100 {
            let isOver = Shared(false)
            let result = run { loop in
                let helper = Helper {
                    while !isOver.withLock({ $0 }) {
                        try? loop.perform {}
                        sched_yield()
                    }
                }
                return [helper, caller.arrange { CFRunLoopStop(CFRunLoopGetCurrent()) }]
            } after: { kept in
                isOver.withLock { $0 = true }
                ((kept as? [Any])?.first as? Helper<Void>)?.join()
            }
            try #require(result == .stopped)
        }
    }

    /// Runs a loop that serves Foundation's.
    private func run(
        _ arrange: @escaping (ThreadRunLoop) throws -> Any, after: @escaping (Any) -> Void = { _ in }
    ) -> ThreadRunLoop.RunResult? {
        nonisolated(unsafe) let (arrange, after) = (arrange, after)
        return onThread {
            let loop = ThreadRunLoop.current
            loop.serveFoundation()
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            guard let kept = try? arrange(loop) else { return nil }
            let result = try? loop.runInMode(seconds: 20)
            after(kept)
            loop.guest = nil
            return withExtendedLifetime(kept) { result }
        }
    }
}

/// A version 0 source of the thread's CFRunLoop.
private final class Signal {
    private let body: () -> Void
    private var source: CFRunLoopSource?

    init(_ body: @escaping () -> Void) {
        self.body = body
        var context = CFRunLoopSourceContext()
        context.info = Unmanaged.passUnretained(self).toOpaque()
        context.perform = { info in info.map { Unmanaged<Signal>.fromOpaque($0).takeUnretainedValue().body() } }
        source = CFRunLoopSourceCreate(nil, 0, &context)
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, .defaultMode)
    }

    deinit { CFRunLoopSourceInvalidate(source) }

    func raise() { CFRunLoopSourceSignal(source) }
}
