import CBench
import Dispatch
import Glibc
import Ports
import RunLoops

/// Many ports that one thread serves, and one sender that takes turns with them.
protocol Crowd: AnyObject, Sendable {
    func bind(_ placement: Placement) throws
    /// Sends so many messages, and returns when all have been counted.
    func oneWay(_ messages: Int, payload: [UInt8]) throws
}

extension Crowd {
    func rate(payload: [UInt8], _ placement: Placement) -> Measurement {
        let amount = Amount(atLeast: 4000, atMost: 1 << 22)
        return Measurement { [self] in
            try bind(placement)
            defer { Placement.free.bindNear() }
            let messages = try amount.found { try oneWay($0, payload: payload) }
            let cpu = cb_cpu_seconds(0)
            let time = try bench.seconds { try oneWay(messages, payload: payload) }
            return [Double(messages) / time, (cb_cpu_seconds(0) - cpu) / Double(messages) * 1e6]
        }
    }
}

/// What the thread that serves counts.
final class Count: @unchecked Sendable {
    // Sound: set while no message is under way; only the thread that serves counts.
    private var left = 0
    let isOver = DispatchSemaphore(value: 0)

    func expect(_ messages: Int) { left = messages }

    func count() {
        left -= 1
        if left == 0 { isOver.signal() }
    }
}

final class PortCrowd: Crowd {
    private let ports: [MachPort]
    private let rights: [MachPort.SendRight]
    private let thread: RunLoopThread
    private let count: Count

    init(_ size: Int) throws {
        let count = Count()
        let thread = try RunLoopThread(name: "ports")
        ports = try (0..<size).map { _ in
            let port = try MachPort(queueLimit: Int(queueLimit)) { _ in count.count() }
            try port.schedule(in: thread.loop)
            return port
        }
        rights = ports.map(\.sendRight)
        (self.thread, self.count) = (thread, count)
    }

    deinit { for port in ports { port.invalidate() } }

    func bind(_ placement: Placement) {
        placement.bindNear()
        try? thread.loop.perform { placement.bindFar() }
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        count.expect(messages)
        var next = 0
        for _ in 0..<messages {
            try rights[next].send(id: Request.count, bytes: payload.span.bytes)
            next += 1
            if next == rights.count { next = 0 }
        }
        try count.isOver.waitForAnswer()
    }
}

/// The same with PUSH and PULL sockets, and one epoll set with the descriptors of all.
final class RawCrowd: Crowd {
    private let outboxes: [RawSocket]
    private let count = Count()
    private let thread: PlainThread

    init(_ size: Int, _ frame: RawFrame) throws {
        let set = cb_set()
        // libzmq gives up the address of a closed socket later, on a thread of its own.
        let name = "crowd \(UInt64.random(in: 0 ... .max))"
        let inboxes = try (0..<size).map { try RawSocket(bound: "inproc://\(name) \($0)", limit: queueLimit, frame) }
        outboxes = try (0..<size).map { try RawSocket(connected: "inproc://\(name) \($0)", limit: 1, frame) }
        for (index, inbox) in inboxes.enumerated() {
            guard cb_set_add(set, inbox.descriptor, UInt32(index)) == 0 else {
                throw BenchError.system("epoll_ctl", errno: errno)
            }
        }
        thread = try PlainThread.start { [count] in
            do { try Self.serve(inboxes, set, count) } catch { fail(error) }
            close(set)
        }
    }

    deinit {
        do { try send(Request.end) } catch { fail(error) }
        thread.join()
    }

    private static func serve(_ inboxes: [RawSocket], _ set: Int32, _ count: Count) throws {
        var ready = [UInt32](repeating: 0, count: 256)
        var isOver = false
        while !isOver {
            let number = cb_set_wait(set, &ready, Int32(ready.count))
            for index in ready.prefix(Int(max(number, 0))) {
                try inboxes[Int(index)].drain { number, _ in
                    if number == Request.end {
                        isOver = true
                    } else if let placement = Request.placement(number) {
                        placement.bindFar()
                    } else {
                        count.count()
                    }
                }
            }
        }
    }

    func bind(_ placement: Placement) throws {
        placement.bindNear()
        try send(Request.bind(placement))
    }

    private func send(_ number: UInt32) throws {
        try outboxes[0].send(number, UnsafeRawBufferPointer(start: nil, count: 0))
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        count.expect(messages)
        var next = 0
        try payload.withUnsafeBytes { payload in
            for _ in 0..<messages {
                try outboxes[next].send(Request.count, payload)
                next += 1
                if next == outboxes.count { next = 0 }
            }
        }
        try count.isOver.waitForAnswer()
    }
}
