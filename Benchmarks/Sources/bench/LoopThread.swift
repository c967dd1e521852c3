import CoreFoundation
import Dispatch
import NIOCore
import NIOPosix
import RunLoops
import Synchronization

/// A thread that does what others tell it to, and sleeps between.
protocol LoopThread: Sendable {
    /// Otherwise a pool's threads take turns.
    static var isThread: Bool { get }

    init() throws
    func execute(_ work: @escaping @Sendable () -> Void)
}

extension LoopThread {
    static var isThread: Bool { true }
}

struct OurThread: LoopThread {
    let thread: RunLoopThread

    init() throws { thread = try RunLoopThread() }

    /// - Parameter pollingTime: How long the loop stays awake for the next message.
    init(pollingTime: Duration) throws {
        try self.init()
        try thread.loop.setPollingTime(pollingTime)
    }

    func execute(_ work: @escaping @Sendable () -> Void) { try? thread.loop.perform(work) }
}

final class CFThread: LoopThread {
    // Sound: CFRunLoop is thread-safe.
    private nonisolated(unsafe) let loop: CFRunLoop

    init() throws {
        nonisolated(unsafe) var loop: CFRunLoop?
        let isReady = DispatchSemaphore(value: 0)
        try PlainThread.start {
            loop = CFRunLoopGetCurrent()
            // Keeps the mode from being empty.
            CFRunLoopAddSource(loop, CFLoop.makeSource0(), kCFRunLoopDefaultMode)
            isReady.signal()
            CFRunLoopRun()
        }
        isReady.wait()
        guard let loop else { preconditionFailure("the thread has set it") }
        self.loop = loop
    }

    deinit {
        nonisolated(unsafe) let loop = loop
        execute { CFRunLoopStop(loop) }
    }

    func execute(_ work: @escaping @Sendable () -> Void) {
        CFRunLoopPerformBlock(loop, kCFRunLoopDefaultMode, work)
        CFRunLoopWakeUp(loop)
    }
}

final class NIOThread: LoopThread {
    private let group: MultiThreadedEventLoopGroup
    private let loop: any EventLoop

    init() {
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        loop = group.next()
    }

    deinit { group.shutdownGracefully { _ in } }

    func execute(_ work: @escaping @Sendable () -> Void) { loop.execute(work) }
}

/// A serial queue.
struct QueueThread: LoopThread {
    static let isThread = false

    let queue = DispatchQueue(label: "bench")

    func execute(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }
}

/// Two threads that pass a block back and forth.
final class Bounce<Thread: LoopThread>: Sendable {
    private let near: Thread
    private let far: Thread
    private let left = Mutex(0)
    private let isOver = DispatchSemaphore(value: 0)

    init(_ placement: Placement) throws {
        near = try Thread()
        far = try Thread()
        near.execute { placement.bindNear() }
        far.execute { placement.bindFar() }
    }

    func microsecondsATrip(_ trips: Int) -> Double {
        left.withLock { $0 = trips }
        return seconds {
            near.execute { self.go() }
            isOver.wait()
        } / Double(trips) * 1e6
    }

    private func go() {
        far.execute { [self] in
            near.execute { [self] in
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { isOver.signal() } else { go() }
            }
        }
    }
}

/// A thread that counts the blocks that others send it.
struct Stream<Thread: LoopThread> {
    private let thread: Thread

    init(_ placement: Placement) throws {
        thread = try Thread()
        thread.execute { placement.bindFar() }
    }

    /// How many blocks a second, from the first sent to the last done.
    func rate(_ blocks: Int, from senders: SenderThreads) throws -> Double {
        let share = blocks / senders.count
        Tally.expect(share * senders.count)
        let time = try seconds {
            try senders.run { [thread] _ in
                // They capture nothing: neither allocating nor reference counting is what is compared.
                for _ in 0..<share { thread.execute { Tally.count() } }
            }
            Tally.isOver.wait()
        }
        return Double(share * senders.count) / time
    }
}

/// What the blocks of one stream at a time count up.
private enum Tally {
    // Sound: the stream's thread alone counts, and it is told how far while there are no blocks.
    private nonisolated(unsafe) static var left = 0
    static let isOver = DispatchSemaphore(value: 0)

    static func expect(_ blocks: Int) { left = blocks }

    static func count() {
        left -= 1
        if left == 0 { isOver.signal() }
    }
}
