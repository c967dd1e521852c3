import CBench
import Dispatch
import Glibc

/// Bytes of heap that the items of a loop take, many of them divided by their number.
enum Heap {
    private static let items = 10_000
    private static let loops = 100

    static func ofSource0(in loop: some LoopContender) throws -> Double {
        try perItem(items) { loop.addSource0() }
    }

    static func ofSource1(in loop: some LoopContender) throws -> Double {
        let event = cb_event()
        defer { close(event) }
        return try perItem(1000) { try loop.addSource1(event) }
    }

    static func ofTimer(in loop: some LoopContender) throws -> Double {
        try perItem(items) { loop.add(loop.makeFarTimer()) }
    }

    private static func perItem(_ count: Int, _ add: () throws -> Void) throws -> Double {
        // The memory for the first of a kind belongs to the loop.
        try add()
        let before = cb_heap()
        for _ in 0..<count { try add() }
        return Double(cb_heap() - before) / Double(count)
    }

    /// Of a loop that has one source and has run, without its thread's own.
    static func ofLoop(_ prepare: @escaping @Sendable () throws -> Void) throws -> Double {
        let bare = try ofThreads {}
        return (try ofThreads(prepare) - bare) / Double(loops)
    }

    private static func ofThreads(_ prepare: @escaping @Sendable () throws -> Void) throws -> Double {
        let isReady = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        func start() throws -> PlainThread {
            let thread = try PlainThread.start {
                do { try prepare() } catch { fail(error) }
                isReady.signal()
                mayEnd.wait()
            }
            isReady.wait()
            return thread
        }
        var threads = [try start()]
        threads.reserveCapacity(loops + 1)
        let before = cb_heap()
        for _ in 0..<loops { threads.append(try start()) }
        let after = cb_heap()
        for _ in threads { mayEnd.signal() }
        for thread in threads { thread.join() }
        return Double(after) - Double(before)
    }
}
