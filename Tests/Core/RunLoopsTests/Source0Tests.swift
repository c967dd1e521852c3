import CoreFoundation
import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct Source0Tests {
    @Test func `a source in two loops is performed by one of them, once a signal`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let (count, done) = (Shared(0), Latch())
        let source = ThreadRunLoop.Source0 {
            count.withLock { $0 += 1 }
            done.open()
        }
        try first.loop.add(source)
        try second.loop.add(source)
        source.signal()
        first.loop.wakeUp()
        second.loop.wakeUp()
        #expect(done.wait(until: .patience))
        for thread in [first, second] {
            thread.stop()
            #expect(thread.join(before: .patience))
        }
        #expect(count.withLock { $0 } == 1)
    }

    @Test func `an invalidation by another thread is the last of a source`() throws {
        let thread = try RunLoopThread()
        for _ in 0..<200 {
            let (canceled, calls) = (Shared(0), Shared(0))
            let source = ThreadRunLoop.Source0(cancel: { _, _ in canceled.withLock { $0 += 1 } }) {
                calls.withLock { $0 += 1 }
            }
            try thread.loop.add(source)
            try thread.loop.add(source, forMode: "other")
            source.signal()
            thread.loop.wakeUp()
            source.invalidate()
            #expect(canceled.withLock { $0 } == 2)
            #expect(!source.isValid)
            #expect(!thread.loop.contains(source))
            #expect(calls.withLock { $0 } <= 1)
        }
    }

    @Test func `a source answers as Foundation's does`() throws {
        // Foundation has it in no header here.
        let symbol = try #require(dlsym(nil, "CFRunLoopSourceIsSignalled"))
        let address = UInt(bitPattern: symbol)
        onThread {
            typealias IsSignalled = @convention(c) (CFRunLoopSource?) -> Bool
            let isSignalled = unsafeBitCast(address, to: IsSignalled.self)
            var context = CFRunLoopSourceContext()
            context.perform = { _ in }
            let theirs = CFRunLoopSourceCreate(nil, 4, &context)
            let ours = ThreadRunLoop.Source0(order: 4) {}
            func compare() {
                #expect(ours.order == CFRunLoopSourceGetOrder(theirs))
                #expect(ours.isValid == CFRunLoopSourceIsValid(theirs))
                #expect(ours.isSignaled == isSignalled(theirs))
            }
            compare()
            CFRunLoopSourceSignal(theirs)
            ours.signal()
            #expect(ours.isSignaled)
            compare()
            CFRunLoopAddSource(CFRunLoopGetCurrent(), theirs, kCFRunLoopDefaultMode)
            _ = try? ThreadRunLoop.current.add(ours)
            CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, false)
            run(.current, seconds: 0)
            #expect(!ours.isSignaled)
            CFRunLoopSourceSignal(theirs)
            ours.signal()
            compare()
            CFRunLoopSourceInvalidate(theirs)
            ours.invalidate()
            #expect(!ours.isValid)
            compare()
            CFRunLoopSourceSignal(theirs)
            ours.signal()
            compare()
        }
    }

    @Test func `an invalid source lets go of all that its callbacks have captured`() throws {
        let thread = try RunLoopThread()
        let gone = Shared(0)
        let source: ThreadRunLoop.Source0
        do {
            let owners = (0..<3).map { _ in AtLast { gone.withLock { $0 += 1 } } }
            source = ThreadRunLoop.Source0(
                schedule: { _, _ in withExtendedLifetime(owners[0]) {} },
                cancel: { _, _ in withExtendedLifetime(owners[1]) {} }
            ) { withExtendedLifetime(owners[2]) {} }
        }
        try thread.loop.add(source)
        #expect(gone.withLock { $0 } == 0)
        source.invalidate()
        #expect(gone.withLock { $0 } == 3)
    }
}
