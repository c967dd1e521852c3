import CoreFoundationPorts
import DarwinNames
import Dispatch
import Testing

struct AssociatedObjectTests {
    private final class Owner {}
    private final class Value {
        let name: String
        private let atEnd: () -> Void
        init(_ name: String, atEnd: @escaping () -> Void = {}) { (self.name, self.atEnd) = (name, atEnd) }
        deinit { atEnd() }
    }

    private nonisolated(unsafe) static let keys = UnsafeMutablePointer<UInt8>.allocate(capacity: 2)
    private let first = UnsafeRawPointer(keys)
    private let second = UnsafeRawPointer(keys + 1)

    private func name(_ object: Any, _ key: UnsafeRawPointer) -> String? {
        (objc_getAssociatedObject(object, key) as? Value)?.name
    }

    @Test func `an object has a value for each key`() {
        let owner = Owner()
        #expect(objc_getAssociatedObject(owner, first) == nil)
        objc_setAssociatedObject(owner, first, Value("one"), .OBJC_ASSOCIATION_RETAIN)
        objc_setAssociatedObject(owner, second, Value("two"), .OBJC_ASSOCIATION_RETAIN_NONATOMIC)
        #expect(name(owner, first) == "one")
        #expect(name(owner, second) == "two")
        #expect(name(Owner(), first) == nil)
        objc_setAssociatedObject(owner, first, Value("three"), .OBJC_ASSOCIATION_RETAIN)
        #expect(name(owner, first) == "three")
        objc_setAssociatedObject(owner, first, nil, .OBJC_ASSOCIATION_RETAIN)
        #expect(name(owner, first) == nil)
        #expect(name(owner, second) == "two")
        objc_removeAssociatedObjects(owner)
        #expect(name(owner, second) == nil)
    }

    @Test func `a struct is a value, and a CFMessagePort an object`() throws {
        let made = CFMessagePortCreateLocal(nil, nil, { _, _, _, _ in nil }, nil, nil)
        let port = try #require(made)
        objc_setAssociatedObject(port as Any, first, 7, .OBJC_ASSOCIATION_COPY)
        #expect(objc_getAssociatedObject(port, first) as? Int == 7)
        CFMessagePortInvalidate(port)
        objc_removeAssociatedObjects(port)
        #expect(objc_getAssociatedObject(port, first) == nil)
    }

    @Test func `an assigned value is not kept`() {
        let owner = Owner()
        var value: Value? = Value("assigned")
        objc_setAssociatedObject(owner, first, value, .OBJC_ASSOCIATION_ASSIGN)
        #expect(name(owner, first) == "assigned")
        value = nil
        #expect(name(owner, first) == nil)
    }

    @Test func `the values of an ended object go when others get values`() {
        var count = 0
        func end() { count += 1 }
        var owner: Owner? = Owner()
        if let owner { objc_setAssociatedObject(owner, first, Value("gone", atEnd: end), .OBJC_ASSOCIATION_RETAIN) }
        #expect(count == 0)
        owner = nil
        // Tests beside this one may have many values, too.
        var others: [Owner] = []
        while count == 0, others.count < 100_000 {
            others.append(Owner())
            objc_setAssociatedObject(others[others.count - 1], first, 1, .OBJC_ASSOCIATION_RETAIN)
        }
        #expect(count == 1)
        for other in others { objc_removeAssociatedObjects(other) }
    }

    @Test func `a replaced value may set others when it ends`() {
        let owner = Owner()
        objc_setAssociatedObject(
            owner, first,
            Value("old") { [first, second] in
                let inner = Owner()
                objc_setAssociatedObject(
                    inner, first, objc_getAssociatedObject(inner, second), .OBJC_ASSOCIATION_RETAIN)
            }, .OBJC_ASSOCIATION_RETAIN)
        objc_setAssociatedObject(owner, first, Value("new"), .OBJC_ASSOCIATION_RETAIN)
        #expect(name(owner, first) == "new")
        objc_removeAssociatedObjects(owner)
    }
}

struct DarwinLockTests {
    /// Guarded by the lock beside it.
    private final class Guarded<Lock>: @unchecked Sendable {
        let lock: UnsafeMutablePointer<Lock>
        var count = 0

        init(_ value: Lock) {
            lock = .allocate(capacity: 1)
            lock.initialize(to: value)
        }

        deinit { lock.deallocate() }
    }

    private static let rounds = 20_000

    @Test func `an unfair lock has one owner`() {
        let guarded = Guarded(os_unfair_lock_s())
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for _ in 0..<Self.rounds {
                os_unfair_lock_lock(guarded.lock)
                guarded.count += 1
                os_unfair_lock_unlock(guarded.lock)
            }
        }
        #expect(guarded.count == 4 * Self.rounds)
        #expect(os_unfair_lock_trylock(guarded.lock))
        #expect(!os_unfair_lock_trylock(guarded.lock))
        os_unfair_lock_unlock(guarded.lock)
    }

    @Test func `a lock keeps its value`() {
        let lock = OSAllocatedUnfairLock(initialState: 0)
        let plain = OSAllocatedUnfairLock()
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for _ in 0..<Self.rounds { lock.withLock { $0 += 1 } }
        }
        #expect(lock.withLock { $0 } == 4 * Self.rounds)
        #expect(plain.withLock { 7 } == 7)
        plain.lock()
        plain.unlock()
        #expect(throws: CancellationError.self) { try lock.withLock { _ in throw CancellationError() } }
        #expect(lock.withLockUnchecked { $0 } == 4 * Self.rounds)
    }
}

struct MachTimeTests {
    @Test func `the time is in nanoseconds and goes on`() {
        let (start, before) = (ContinuousClock.now, mach_absolute_time())
        var now = before
        while now - before < 2_000_000 { now = mach_absolute_time() }
        #expect(ContinuousClock.now - start >= .milliseconds(1))
        var info = mach_timebase_info()
        #expect(mach_timebase_info(&info) == KERN_SUCCESS)
        #expect(now * UInt64(info.numer) / UInt64(info.denom) == now)
    }
}
