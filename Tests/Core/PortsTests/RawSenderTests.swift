import CRunLoopShims
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing
import ZeroMQ

@testable import FuzzTargets
@testable import Ports

/// Senders that do not go through the library.
@Suite(.ownThread) struct RawSenderTests {
    let sandbox = Sandbox()

    private func exposed(messageLimit: Int) throws -> (MachPort, path: String) {
        let port = try MachPort(messageLimit: messageLimit, nameServer: sandbox.names)
        let directory = try port.receiver.expose()
        return (port, "\(directory)/\(PortRuntime.shared.incarnation)/\(port.id.number)")
    }

    private func frame(_ size: Int) throws -> [UInt8] {
        let header = FrameHeader(id: 1, count: 1)
        var bytes = [UInt8](repeating: 0, count: size)
        bytes.withUnsafeMutableBytes { bytes in
            header.write(to: bytes)
            bytes.setLittle(UInt32(size - header.componentsOffset), at: header.sizesOffset)
        }
        return bytes
    }

    @Test func `a message as large as the port takes arrives, and a larger one is refused by the receiver`() throws {
        let (port, path) = try exposed(messageLimit: 1000)
        let good = try RawStream(to: path, saying: RawStream.announced(1000) + frame(1000))
        #expect(try port.receive(before: .patience).bytes?.count == 1000 - Wire.headerSize - 4)
        let bad = try RawStream(to: path, saying: RawStream.announced(1001) + frame(1001))
        #expect(bad.isClosed)
        good.say(RawStream.announced(100) + (try frame(100)))
        #expect(try port.receive(before: .patience).bytes?.count == 100 - Wire.headerSize - 4)
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
    }

    /// Longer than libzmq lets a handshake take unless told otherwise.
    @Test(.ownSleepingThread)
    func `a connection whose handshake takes longer than half a minute stays`() throws {
        let (port, path) = try exposed(messageLimit: 1000)
        let stream = try RawStream(to: path)
        stream.say(RawStream.greeting)
        stream.hear(64 + 28)
        #expect(crl_poll(stream.descriptor, -1, 32_000_000_000) == 0)
        stream.say(RawStream.ready + RawStream.announced(100) + (try frame(100)))
        #expect(try port.receive(before: .patience).bytes?.count == 100 - Wire.headerSize - 4)
    }

    @Test func `no part of a message of several frames is taken for a message`() throws {
        let (port, path) = try exposed(messageLimit: 1000)
        let good = try frame(100)
        // The flag says that more parts follow.
        let first: [UInt8] = [1, 100] + good
        let last: [UInt8] = [0, 100] + good
        var next = good
        next.withUnsafeMutableBytes { $0.setLittle(5 as UInt32, at: 4) }
        let stream = try RawStream(to: path, saying: first + first + last + [0, 100] + next)
        #expect(try port.receive(before: .patience).id == 5)
        #expect(port.malformedCount == 3)
        withExtendedLifetime(stream) {}
    }

    // MARK: Who has sent it

    private static let signature: [UInt8] = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f]

    /// What a peer of an older protocol says before its messages, and a message of theirs.
    static let older: [(name: String, greeting: [UInt8], isOldest: Bool)] = [
        ("1.0", [1, 0], true),
        ("1.0 with a signature", signature + [0, 1, 0], true),
        ("2.0", signature + [1, 8, 0, 0], false),
        ("2.1", signature + [2, 8, 0, 0], false),
    ]

    @Test(arguments: 0..<4) func `a peer of whom the kernel's word is not passed on is not let in`(
        _ index: Int
    ) throws {
        let (port, path) = try exposed(messageLimit: 1000)
        let (name, greeting, isOldest) = Self.older[index]
        let bytes = try frame(100)
        let bad = try RawStream(to: path)
        bad.shout(greeting + (isOldest ? [101, 0] : [0, 100]) + bytes)
        #expect(bad.isClosed, "\(name)")
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut", "\(name)")
        // The port's own process is known all the same.
        try port.sendRight.send(MachPort.Message(id: 5))
        #expect(try port.receive(before: .patience).sender?.pid == getpid())
    }

    @Test func `a peer that says who it is is not believed`() throws {
        let (port, path) = try exposed(messageLimit: 1000)
        let ready = RawStream.ready(["Socket-Type": "PUSH", "Peer-Address": "localhost:1:2:3"])
        let liar = try RawStream(to: path, ready: ready, saying: RawStream.announced(100) + frame(100))
        let sender = try port.receive(before: .patience).sender
        #expect(sender == SenderCredentials(pid: getpid(), uid: geteuid(), gid: getegid()))
        withExtendedLifetime(liar) {}
    }

    @Test func `a peer that rings this process's bell is not taken for it`() throws {
        let (port, path) = try exposed(messageLimit: 1000)
        var mark = PortRuntime.shared.channels.mark.littleEndian
        let bell = withUnsafeBytes(of: &mark) { Array($0) }
        let liar = try RawStream(to: path, saying: RawStream.announced(UInt64(bell.count)) + bell)
        var kinds: Set<String> = []
        #expect(
            waitUntil {
                kinds.insert(errorKind { _ = try port.receive(before: .distantPast) })
                return port.malformedCount == 1
            })
        #expect(kinds == ["receiveTimedOut"])
        withExtendedLifetime(liar) {}
    }

    @Test func `who has sent a frame without any mark is not known`() throws {
        let bytes = try frame(100)
        var frame = try ZeroMQFrame(count: bytes.count)
        frame.withUnsafeMutableBytes { $0.copyBytes(from: bytes) }
        let received = ReceivedFrame(frame, PortRuntime.shared.channels)
        #expect(received.malformed == nil)
        #expect(MachPort.Message(.frame(received)).sender == nil)
    }

    // MARK: Sizes

    @Test(arguments: [(64 << 20) + 1, 1 << 40, UInt64(Int64.max), .max])
    func `a size that is announced but never sent is refused before anything is allocated`(_ size: UInt64) throws {
        let (port, path) = try exposed(messageLimit: 64 << 20)
        let bad = try RawStream(to: path, saying: RawStream.announced(size))
        #expect(bad.isClosed)
        try port.sendRight.send(MachPort.Message(id: 5))
        #expect(try port.receive(before: .patience).id == 5)
    }

    @Test func `a million components that are not there are a malformed frame`() throws {
        let (port, path) = try exposed(messageLimit: 64 << 20)
        var bytes = try frame(100)
        for count in [1_000_000, UInt32.max] {
            bytes.withUnsafeMutableBytes { $0.setLittle(count, at: 8) }
            let bad = try RawStream(to: path, saying: RawStream.announced(100) + bytes)
            #expect(waitUntil { (try? port.receive(before: .distantPast)) == nil && port.malformedCount > 0 })
            withExtendedLifetime(bad) {}
        }
        let good = try RawStream(to: path, saying: RawStream.announced(100) + frame(100))
        #expect(try port.receive(before: .patience).id == 1)
        #expect(waitUntil { (try? port.receive(before: .distantPast)) == nil && port.malformedCount == 2 })
        withExtendedLifetime(good) {}
    }
}
