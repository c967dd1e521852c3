import CBench
import Dispatch
import Glibc
import Synchronization

/// What people pass messages between threads with, besides ports: one end, which handles what any thread posts, message
/// by message, in order. None bounds its queue.
protocol Mailbox: Sendable {
    /// Whether a thread of its own handles the messages, instead of one of a pool's.
    static var hasThread: Bool { get }

    init(handler: @escaping @Sendable (Letter) -> Void) throws
    func post(_ letter: Letter)
}

/// A message between threads.
struct Letter: Sendable {
    let number: UInt32
    let payload: [UInt8]

    init(_ number: UInt32, sharing payload: [UInt8]) { (self.number, self.payload) = (number, payload) }

    /// With bytes of its own, as a message has them.
    init(_ number: UInt32, copying payload: [UInt8]) {
        self.number = number
        self.payload = [UInt8](unsafeUninitializedCapacity: payload.count) { bytes, count in
            payload.withUnsafeBytes { UnsafeMutableRawBufferPointer(bytes).copyMemory(from: $0) }
            count = payload.count
        }
    }
}

/// The floor under all: a queue behind a lock, and an eventfd in an epoll set, written when the queue was empty.
final class EventMailbox: Mailbox {
    static let hasThread = true

    private let event: Int32
    private let waiting = Mutex<[Letter]>([])

    init(handler: @escaping @Sendable (Letter) -> Void) throws {
        event = cb_event()
        let set = cb_watch(event, true)
        guard event >= 0, set >= 0 else { throw BenchError.system("eventfd", errno: errno) }
        try PlainThread.start { [self] in
            var taken: [Letter] = []
            while true {
                while cb_wait(set, -1) != 0 {}
                waiting.withLock { swap(&$0, &taken) }
                for letter in taken { handler(letter) }
                taken.removeAll(keepingCapacity: true)
            }
        }
    }

    func post(_ letter: Letter) {
        let wasEmpty = waiting.withLock { waiting in
            waiting.append(letter)
            return waiting.count == 1
        }
        guard wasEmpty else { return }
        var one: UInt64 = 1
        _ = write(event, &one, 8)
    }
}

/// A block for each message.
struct BlockMailbox<Thread: LoopThread>: Mailbox {
    static var hasThread: Bool { Thread.isThread }

    private let thread: Thread
    private let handler: @Sendable (Letter) -> Void

    init(handler: @escaping @Sendable (Letter) -> Void) throws {
        thread = try Thread()
        self.handler = handler
    }

    func post(_ letter: Letter) { thread.execute { [handler] in handler(letter) } }
}

/// A task that iterates over a stream.
struct StreamMailbox: Mailbox {
    static let hasThread = false

    private let continuation: AsyncStream<Letter>.Continuation

    init(handler: @escaping @Sendable (Letter) -> Void) {
        let (stream, continuation) = AsyncStream.makeStream(of: Letter.self)
        self.continuation = continuation
        Task.detached { for await letter in stream { handler(letter) } }
    }

    func post(_ letter: Letter) { continuation.yield(letter) }
}
