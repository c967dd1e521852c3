import Glibc
import RunLoops
import TestSupport

@testable import Ports

/// Fills the kernel's buffer of its connection, sends a few messages more, the last one with a byte, and exits before
/// libzmq's thread has looked at them. The process must have one processor.
func leaveFull() throws -> Never {
    let right = try test()
    try PortRuntime.shared.setFlushBound(.seconds(60))
    var number = 0 as UInt32
    func send(_ bytes: [UInt8] = []) throws(PortError) {
        try right.send(id: number, bytes: bytes.span.bytes, before: .now + .seconds(30))
        number += 1
    }
    try send()
    let paths = Set([right.channel.usedPath].compactMap(\.self))
    guard let found = LocalSocket.connections(to: paths).first else { fail("no connection") }
    let connection = found.original
    let room = try limitRoom(of: connection)
    try idleThreads(named: "ZMQbg/IO/0")
    while unread(connection) < room {
        let before = unread(connection)
        try send()
        // The port's side may have taken the message already.
        waitUntil(before: .now + .milliseconds(100)) { unread(connection) != before }
    }
    close(creat(PortNameServer.shared.path + "/leaving", 0o600))
    for _ in 0..<4 { try send() }
    try send([1])
    exit(0)
}

/// Leaves the connection room for a few writes of libzmq, of 8 KiB each.
private func limitRoom(of connection: Int32) throws -> Int32 {
    var room: Int32 = 20_000
    var size = socklen_t(MemoryLayout<Int32>.size)
    setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &room, size)
    getsockopt(connection, SOL_SOCKET, SO_SNDBUF, &room, &size)
    return room
}

/// Lets threads run only when no other one wants to.
private func idleThreads(named name: String) throws {
    var parameters = sched_param()
    let idle: Int32 = 5  // SCHED_IDLE
    for thread in (entries(of: "/proc/self/task") ?? []).compactMap({ pid_t($0) }) {
        guard line(in: "/proc/self/task/\(thread)/comm") == name else { continue }
        if sched_setscheduler(thread, idle, &parameters) != 0 { fail("sched_setscheduler") }
    }
}

/// How many bytes the kernel keeps of the connection, with what it needs to keep them.
private func unread(_ connection: Int32) -> Int32 {
    var count: Int32 = 0
    _ = ioctl(connection, UInt(TIOCOUTQ), &count)
    return count
}
