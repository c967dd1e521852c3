import CoreFoundation
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct ObserverTests {
    @Test func `an observer is one loop's until it is taken out`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let observer = ThreadRunLoop.Observer(.entry) { _, _ in }
        try first.loop.add(observer)
        try second.loop.add(observer)
        #expect(!second.loop.contains(observer))
        first.loop.remove(observer)
        try second.loop.add(observer)
        #expect(second.loop.contains(observer))
        observer.invalidate()
        try first.loop.add(observer)
        #expect(!first.loop.contains(observer))
        #expect(!second.loop.contains(observer))
    }

    @Test(arguments: [ThreadRunLoop.Activity.all, [.entry, .exit], [.beforeWaiting]], [false, true])
    func `an observer answers as Foundation's does`(_ activities: ThreadRunLoop.Activity, _ repeats: Bool) {
        let theirs = CFRunLoopObserverCreateWithHandler(nil, CFOptionFlags(activities.rawValue), repeats, -3) { _, _ in
        }
        let ours = ThreadRunLoop.Observer(activities, repeats: repeats, order: -3) { _, _ in }
        func compare() {
            #expect(UInt(ours.activities.rawValue) == CFRunLoopObserverGetActivities(theirs))
            #expect(ours.repeats == CFRunLoopObserverDoesRepeat(theirs))
            #expect(ours.order == CFRunLoopObserverGetOrder(theirs))
            #expect(ours.isValid == CFRunLoopObserverIsValid(theirs))
        }
        compare()
        CFRunLoopObserverInvalidate(theirs)
        ours.invalidate()
        #expect(!ours.isValid)
        compare()
    }

    @Test func `the activities have Foundation's bits`() {
        let pairs: [(ThreadRunLoop.Activity, CFRunLoopActivity)] = [
            (.entry, .entry), (.beforeTimers, .beforeTimers), (.beforeSources, .beforeSources),
            (.beforeWaiting, .beforeWaiting), (.afterWaiting, .afterWaiting), (.exit, .exit), (.all, .allActivities),
        ]
        for (ours, theirs) in pairs { #expect(UInt(ours.rawValue) == theirs.rawValue) }
    }

    @Test func `an observer is not told of a run inside its own callout`() {
        let count = onThread {
            let (loop, count) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(
                ThreadRunLoop.Observer(.entry) { _, _ in
                    count.withLock { $0 += 1 }
                    run(loop, seconds: 0)
                })
            run(loop, seconds: 0)
            return count.withLock { $0 }
        }
        #expect(count == 1)
    }
}
