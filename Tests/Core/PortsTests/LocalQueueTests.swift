import Glibc
import OwnThread
import RunLoopLocks
import RunLoops
import Synchronization
import TestSupport
import Testing

@testable import Ports

/// The list of messages between threads, without a port.
@Suite(.ownThread) struct LocalQueueTests {
    private func message(_ id: UInt32, bytes: [UInt8] = []) -> LocalMessage {
        LocalMessage(id: id, bytes: bytes.span.bytes, replyRight: nil, size: 0, from: MessagePool())
    }

    private func queue(limit: Int) -> LocalQueue {
        let queue = LocalQueue(limit: limit)
        queue.open()
        return queue
    }

    private func ids(_ batch: consuming LocalQueue.Batch) -> [UInt32] {
        var ids: [UInt32] = []
        while let message = batch.popFirst() { ids.append(message.header.id) }
        return ids
    }

    @Test func `messages come in order, and only the first rings the bell`() {
        let queue = queue(limit: 10)
        #expect(queue.push(message(0)) == .opened)
        for id in 1..<5 as Range<UInt32> { #expect(queue.push(message(id)) == .queued) }
        #expect(!queue.close())
        #expect(ids(queue.takeAll()) == [0, 1, 2, 3, 4])
        #expect(queue.push(message(5)) == .queued)
        #expect(ids(queue.takeAll()) == [5])
        #expect(queue.close())
        #expect(queue.close())
        #expect(ids(queue.takeAll()).isEmpty)
        #expect(queue.push(message(6)) == .opened)
    }

    @Test func `the limit is exact, and what was taken makes room`() {
        let queue = queue(limit: 4)
        for id in 0..<4 as Range<UInt32> { #expect(queue.push(message(id)) != .full) }
        #expect(queue.push(message(4)) == .full)
        #expect(queue.sentCount == 4)
        let batch = queue.takeAll()
        // Off the list, and not handled.
        #expect(queue.push(message(4)) == .full)
        #expect(!queue.noteTaken())
        #expect(queue.push(message(4)) == .queued)
        #expect(queue.push(message(5)) == .full)
        queue.askForRoom()
        #expect(!queue.noteTaken())
        #expect(queue.noteTaken())
        #expect(!queue.noteTaken())
        #expect(ids(batch) == [0, 1, 2, 3])
        #expect(!queue.isEmpty)
    }

    @Test func `a list that refuses keeps what it has`() {
        let queue = LocalQueue(limit: 10)
        #expect(queue.push(message(0)) == .refused)
        #expect(queue.sentCount == 0)
        queue.open()
        #expect(queue.push(message(1)) == .opened)
        queue.refuse()
        #expect(queue.push(message(2)) == .refused)
        #expect(ids(queue.takeAll()) == [1])
        #expect(queue.push(message(3)) == .refused)
        #expect(queue.close())
    }

    @Test func `a message that is too large for the pool is never used again`() {
        let pool = MessagePool()
        for (count, isKept) in [(0, true), (64, true), (65_536, true), (65_537, false), (1 << 20, false)] {
            let bytes = [UInt8](repeating: 1, count: count)
            var message = LocalMessage(id: 0, bytes: bytes.span.bytes, replyRight: nil, size: 0, from: pool)
            #expect(message.empty() == isKept, "\(count)")
        }
    }

    @Test func `what is left in a list is released with it`() {
        weak var channel: SendChannel?
        do {
            let queue = queue(limit: 10)
            let port = try? MachPort()
            channel = port?.sendRight.channel
            for _ in 0..<3 {
                _ = queue.push(
                    LocalMessage(
                        kind: .message, id: 0, request: 0, components: [], replyRight: channel, size: 0))
            }
            #expect(channel != nil)
        }
        // A thread that looks through all channels may have it for a moment.
        #expect(waitUntil { channel == nil })
    }

    // MARK: The bell

    /// All that takers and senders share, and where each of them is. A step of it is what really is one step for the
    /// other threads: a compare-and-exchange, a call of libzmq, or what happens under the port's lock.
    private struct Model: Hashable {
        enum Sender: Hashable { case pushing(left: Int), ringing(left: Int), done }
        /// A taker has the lock while it reads the socket and closes the list.
        enum Taker: Hashable { case looking, reading, closing, telling, handling, asleep }
        /// Somebody asks for statistics, once: under the lock the socket is read, and then the list.
        enum Asker: Hashable { case waiting, judging, telling, done }

        var list = 0
        var isClosed = true
        /// The socket holds bells, and its descriptor is readable until somebody reads them.
        var bells = 0
        var mayHaveMore = false
        var raised: [Bool]
        var senders: [Sender]
        var takers: [Taker]
        var handled = 0
        var asker = Asker.waiting

        var isLocked: Bool { asker == .judging || takers.contains { $0 == .reading || $0 == .closing } }

        init(senders: Int, messages: Int, takers: Int) {
            self.senders = Array(repeating: .pushing(left: messages), count: senders)
            self.takers = Array(repeating: .asleep, count: takers)
            raised = Array(repeating: false, count: takers)
        }

        /// The states that one step leads to.
        var next: [Model] {
            var states: [Model] = []
            for index in senders.indices {
                var state = self
                switch senders[index] {
                case .done: continue
                case .pushing(let left):
                    state.list += 1
                    state.isClosed = false
                    state.senders[index] = isClosed ? .ringing(left: left - 1) : Self.sender(left - 1)
                case .ringing(let left):
                    state.bells += 1
                    state.senders[index] = Self.sender(left)
                }
                states.append(state)
            }
            for index in takers.indices {
                var state = self
                switch takers[index] {
                case .asleep:
                    guard bells > 0 || raised[index] else { continue }
                    state.takers[index] = .looking
                case .looking:
                    if isLocked { continue }
                    if list > 0 { state.take(index) } else { state.takers[index] = .reading }
                case .reading:
                    state.bells = 0
                    state.takers[index] = .closing
                case .closing where list > 0:
                    state.take(index)
                case .closing:
                    state.isClosed = true
                    state.mayHaveMore = false
                    state.raised = Array(repeating: false, count: takers.count)
                    state.takers[index] = .asleep
                case .telling:
                    state.raised = Array(repeating: true, count: takers.count)
                    state.takers[index] = .handling
                case .handling:
                    state.handled += 1
                    state.takers[index] = .looking
                }
                states.append(state)
            }
            var state = self
            switch asker {
            case .waiting:
                if isLocked { return states }
                state.bells = 0
                state.asker = .judging
            case .judging:
                let isNews = list > 0 && !mayHaveMore
                if isNews { state.mayHaveMore = true }
                state.asker = isNews ? .telling : .done
            case .telling:
                state.raised = Array(repeating: true, count: takers.count)
                state.asker = .done
            case .done:
                return states
            }
            return states + [state]
        }

        private mutating func take(_ taker: Int) {
            list -= 1
            takers[taker] = mayHaveMore ? .handling : .telling
            mayHaveMore = true
        }

        private static func sender(_ left: Int) -> Sender { left > 0 ? .pushing(left: left) : .done }
    }

    @Test(arguments: [(1, 3, 1), (2, 2, 1), (2, 2, 2), (3, 1, 2), (2, 1, 3)])
    func `whatever the order of steps, no message waits unseen`(_ senders: Int, _ messages: Int, _ takers: Int) {
        var seen: Set<Model> = []
        var open = [Model(senders: senders, messages: messages, takers: takers)]
        var ends = 0
        while let state = open.popLast() {
            guard seen.insert(state).inserted else { continue }
            let next = state.next
            if next.isEmpty {
                ends += 1
                #expect(state.handled == senders * messages, "\(state)")
                #expect(state.list == 0, "\(state)")
            }
            open += next
        }
        #expect(ends > 0)
    }

    @Test func `threads that push at once lose nothing, and nobody sleeps while messages wait`() {
        let (senders, count) = (4, Scale.count(20_000, long: 25_000_000))
        let queue = queue(limit: 1000)
        let bell = Latch()
        let bells = Shared<[Latch]>([bell])
        let threads = (0..<senders).map { sender in
            Helper {
                for number in 0..<count {
                    let message = self.message(UInt32(sender), bytes: withUnsafeBytes(of: number) { Array($0) })
                    while true {
                        let outcome = queue.push(message)
                        if outcome == .full {
                            sched_yield()
                            continue
                        }
                        // Each closing of the list has a bell of its own.
                        if outcome == .opened { bells.withLock { $0.last }?.open() }
                        break
                    }
                }
            }
        }
        var next = Array(repeating: 0, count: senders)
        var taken = 0
        while taken < senders * count {
            var batch = queue.takeAll()
            while let message = batch.popFirst() {
                _ = queue.noteTaken()
                message.readBytes(ofComponent: 0) { bytes in
                    let number = bytes.loadUnaligned(as: Int.self)
                    let id = Int(message.header.id)
                    if number != next[id] { Issue.record("\(number) of \(id) is out of order") }
                    next[id] = number + 1
                }
                taken += 1
            }
            guard taken < senders * count else { break }
            let bell = Latch()
            bells.withLock { $0 = [bell] }
            if queue.close(), !bell.wait(until: MonotonicInstant(Scale.patience)) {
                Issue.record("asleep with \(taken) taken")
                break
            }
        }
        for thread in threads { thread.join() }
        #expect(next == Array(repeating: count, count: senders))
        #expect(queue.isEmpty)
    }
}
