import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

/// Items that are taken out while they are being called.
@Suite(.ownThread) struct RemovalTests {
    fileprivate enum Kind: CaseIterable { case source0, source1, timer, observer }
    fileprivate enum Way: CaseIterable { case removed, removedByAnother, invalidated, invalidatedByAnother }

    @Test(arguments: Kind.allCases, Way.allCases)
    fileprivate func `an item taken out in its callout finishes it, and is not called again`(_ kind: Kind, _ way: Way) {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            // Keeps the mode from being empty.
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let item = AnItem(kind) { item in
                trace("begins")
                switch way {
                case .removed: item.remove(from: loop)
                case .removedByAnother: Helper { item.remove(from: loop) }.join()
                case .invalidated: item.invalidate()
                case .invalidatedByAnother: Helper { item.invalidate() }.join()
                }
                trace("in \(item.isIn(loop))")
            }
            item.add(to: loop)
            for _ in 0..<2 {
                item.makeReady()
                run(loop, seconds: 0.002)
            }
            trace("valid \(item.isValid)")
            item.forget()
            return trace.all
        }
        let isValid = way == .removed || way == .removedByAnother
        #expect(trace == ["begins", "in false", "valid \(isValid)"])
    }

    @Test(arguments: Kind.allCases)
    fileprivate func `an item taken out and put back in its callout is called again`(_ kind: Kind) {
        let count = onThread {
            let (loop, count) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let item = AnItem(kind) { item in
                count.withLock { $0 += 1 }
                Helper {
                    item.remove(from: loop)
                    item.add(to: loop)
                }.join()
                if count.withLock({ $0 }) == 3 { loop.stop() }
                item.makeReady()
                loop.wakeUp()
            }
            item.add(to: loop)
            item.makeReady()
            run(loop, seconds: 20)
            item.forget()
            return count.withLock { $0 }
        }
        #expect(count == 3)
    }

    @Test(arguments: Kind.allCases)
    fileprivate func `the last reference to an item may go in its own callout`(_ kind: Kind) {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let kept = Shared<AnItem?>(nil)
            let last = AtLast { trace("gone") }
            let item = AnItem(kind) { [last] item in
                item.remove(from: loop)
                item.forget()
                kept.withLock { $0 = nil }
                trace("still here")
                withExtendedLifetime(last) {}
            }
            item.add(to: loop)
            item.makeReady()
            kept.withLock { $0 = item }
            _ = (consume item, consume last)
            run(loop, seconds: 0.002)
            trace("over")
            return trace.all
        }
        #expect(trace == ["still here", "gone", "over"])
    }

    @Test(arguments: Kind.allCases)
    fileprivate func `adding and taking out by other threads while the item is called harms nobody`(_ kind: Kind) throws
    {
        let (thread, calls) = (try RunLoopThread(), Shared(0))
        let item = AnItem(kind) { item in
            calls.withLock { $0 += 1 }
            item.makeReady()
        }
        let helpers = (0..<2).map { _ in
            Helper {
                for _ in 0..<1_000 {
                    item.add(to: thread.loop)
                    item.makeReady()
                    thread.loop.wakeUp()
                    item.remove(from: thread.loop)
                }
            }
        }
        for helper in helpers { helper.join() }
        item.add(to: thread.loop)
        let before = calls.withLock { $0 }
        waitUntil {
            item.makeReady()
            thread.loop.wakeUp()
            return calls.withLock { $0 } > before
        }
        #expect(calls.withLock { $0 } > before)
        item.invalidate()
        #expect(!item.isIn(thread.loop))
        // The callout in progress is the last.
        try thread.run {}
        let last = calls.withLock { $0 }
        thread.loop.wakeUp()
        try thread.run {}
        #expect(calls.withLock { $0 } == last)
        item.forget()
    }
}

/// An item of any kind, which calls out whenever it was made ready and its loop looks.
private final class AnItem: Sendable {
    private let source0 = Shared<ThreadRunLoop.Source0?>(nil)
    private let source1 = Shared<ThreadRunLoop.Source1?>(nil)
    private let timer = Shared<ThreadRunLoop.Timer?>(nil)
    private let observer = Shared<ThreadRunLoop.Observer?>(nil)
    private let event = madeEvent()

    init(_ kind: RemovalTests.Kind, _ body: @escaping @Sendable (AnItem) -> Void) {
        switch kind {
        case .source0:
            source0.withLock { $0 = .init { body(self) } }
        case .source1:
            source1.withLock {
                $0 = .init(descriptor: event.descriptor) { _ in
                    self.event.clear()
                    body(self)
                    return true
                }
            }
        case .timer:
            timer.withLock { $0 = .init(at: .now, every: .microseconds(500)) { _ in body(self) } }
        case .observer:
            observer.withLock { $0 = .init(.beforeSources) { _, _ in body(self) } }
        }
    }

    func makeReady() {
        source0.withLock { $0 }?.signal()
        event.raise()
    }

    func add(to loop: ThreadRunLoop) {
        if let source = source0.withLock({ $0 }) { _ = try? loop.add(source) }
        if let source = source1.withLock({ $0 }) { RunLoopsTests.add(source, to: loop) }
        if let timer = timer.withLock({ $0 }) { _ = try? loop.add(timer) }
        if let observer = observer.withLock({ $0 }) { _ = try? loop.add(observer) }
    }

    func remove(from loop: ThreadRunLoop) {
        source0.withLock { $0 }.map { loop.remove($0) }
        source1.withLock { $0 }.map { loop.remove($0) }
        timer.withLock { $0 }.map { loop.remove($0) }
        observer.withLock { $0 }.map { loop.remove($0) }
    }

    func invalidate() {
        source0.withLock { $0 }?.invalidate()
        source1.withLock { $0 }?.invalidate()
        timer.withLock { $0 }?.invalidate()
        observer.withLock { $0 }?.invalidate()
    }

    func isIn(_ loop: ThreadRunLoop) -> Bool {
        source0.withLock { $0 }.map { loop.contains($0) } ?? source1.withLock { $0 }.map { loop.contains($0) }
            ?? timer.withLock { $0 }.map { loop.contains($0) } ?? observer.withLock { $0 }.map { loop.contains($0) }
            ?? false
    }

    var isValid: Bool {
        source0.withLock { $0 }?.isValid ?? source1.withLock { $0 }?.isValid ?? timer.withLock { $0 }?.isValid
            ?? observer.withLock { $0 }?.isValid ?? false
    }

    /// Lets go of the item, whose closure has this.
    func forget() {
        source0.withLock { $0 = nil }
        source1.withLock { $0 = nil }
        timer.withLock { $0 = nil }
        observer.withLock { $0 = nil }
    }
}
