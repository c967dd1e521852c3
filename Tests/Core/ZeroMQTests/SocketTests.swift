import Glibc
import TestSupport
import Testing

@testable import ZeroMQ

@Suite struct SocketTests {
    /// Two connected ends.
    private struct Ends: ~Copyable {
        let sender: ZeroMQSocket
        let receiver: ZeroMQSocket

        static func made(marks: Int32 = 10) throws -> Ends {
            let context = try ZeroMQContext()
            let receiver = try ZeroMQSocket(.pull, in: context)
            try receiver.set(.receiveHighWaterMark(marks))
            try receiver.bind("inproc://ends")
            let sender = try ZeroMQSocket(.push, in: context)
            try sender.set(.sendHighWaterMark(marks))
            try sender.set(.linger(0))
            try sender.connect("inproc://ends")
            return Ends(sender: sender, receiver: receiver)
        }
    }

    private func frame(_ bytes: [UInt8]) throws -> ZeroMQFrame {
        var frame = try ZeroMQFrame(count: bytes.count)
        frame.withUnsafeMutableBytes { $0.copyBytes(from: bytes) }
        return frame
    }

    @Test(arguments: [0, 1, 32, 33, 34, 100_000])
    func `bytes arrive as they were sent`(_ count: Int) throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let ends = try Ends.made()
        var sent = try frame(bytes)
        var received = ZeroMQFrame()
        let wasSent = try ends.sender.send(&sent)
        let rest = sent.count
        #expect(wasSent)
        #expect(rest == 0)
        let hasArrived = try ends.receiver.receive(&received)
        let (arrived, isFollowed) = (received.withUnsafeBytes { Array($0) }, received.isFollowed)
        #expect(hasArrived)
        #expect(arrived == bytes)
        #expect(!isFollowed)
        let hasMore = try ends.receiver.receive(&received)
        #expect(!hasMore)
    }

    @Test func `without room a frame stays what it is, and events tell of room`() throws {
        let ends = try Ends.made(marks: 1)
        var sent = 0
        while true {
            var frame = try frame([7])
            if try ends.sender.send(&frame) {
                sent += 1
                continue
            }
            let kept = frame.withUnsafeBytes { Array($0) }
            #expect(kept == [7])
            break
        }
        #expect(sent == 2)
        let (full, waiting) = (try ends.sender.events(), try ends.receiver.events())
        #expect(full == [])
        #expect(waiting == .receivable)
        var received = ZeroMQFrame()
        while try ends.receiver.receive(&received) { sent -= 1 }
        let events = try ends.sender.events()
        #expect(sent == 0)
        #expect(events == .sendable)
    }

    @Test func `errors name the call and the cause`() throws {
        let context = try ZeroMQContext(maxSockets: 2)
        let first = try ZeroMQSocket(.pull, in: context)
        let second = try ZeroMQSocket(.pull, in: context)
        #expect(throws: ZeroMQError(call: "zmq_socket", code: EMFILE)) { _ = try ZeroMQSocket(.pull, in: context) }
        try first.bind("inproc://taken")
        #expect(throws: ZeroMQError(call: "zmq_bind", code: EADDRINUSE)) { try second.bind("inproc://taken") }
        #expect(
            ZeroMQError(call: "zmq_bind", code: EADDRINUSE).description == "zmq_bind failed: Address already in use")
    }

    @Test func `the number of another process is no thread's`() {
        #expect(ZeroMQContext.isRunning(getpid()))
        #expect(!ZeroMQContext.isRunning(getppid()))
    }

    @Test func `a frame that there is no memory for throws`() {
        #expect(throws: ZeroMQError.self) { _ = try ZeroMQFrame(count: Int.max / 2) }
    }

    @Test func `threads that make sockets while their context ends get errors`() throws {
        for _ in 0..<200 {
            let context = try ZeroMQContext()
            let threads = (0..<3).map { _ in Helper { while (try? ZeroMQSocket(.pull, in: context)) != nil {} } }
            context.terminate()
            for thread in threads { thread.join() }
            #expect(context.maxSockets == 0)
        }
    }

    @Test func `a terminated context ends its sockets' calls`() throws {
        let context = try ZeroMQContext()
        var socket: ZeroMQSocket? = try ZeroMQSocket(.pull, in: context)
        let thread = Helper { context.terminate() }
        var frame = ZeroMQFrame()
        var code: Int32?
        waitUntil {
            do throws(ZeroMQError) { _ = try socket?.receive(&frame) } catch { code = error.code }
            return code != nil
        }
        #expect(code == ZeroMQError.contextTerminated)
        socket = nil
        thread.join()
    }
}
