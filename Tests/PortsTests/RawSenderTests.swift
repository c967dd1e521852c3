import Glibc
import RunLoops
import Testing

@testable import Ports

/// Senders that do not go through the library.
@Suite(.ownThread) struct RawSenderTests {
    let sandbox = Sandbox()

    private func exposed(messageLimit: Int) throws -> (MachPort, path: String) {
        let port = try MachPort(messageLimit: messageLimit, nameServer: sandbox.names)
        let directory = try port.expose()
        return (port, "\(directory)/\(PortProcess.current.incarnation)/\(port.id.number)")
    }

    /// Says what every ZeroMQ peer says first, each part when the other has answered the one before, and then something.
    private func connected(to path: String, saying bytes: [UInt8]) throws -> Int32 {
        let descriptor = try LocalSocket.make(.stream)
        #expect(LocalSocket.connect(descriptor, to: path) == 0)
        let mechanism = Array("NULL".utf8) + Array(repeating: 0, count: 16)
        let greeting =
            [0xff] + Array(repeating: 0, count: 8) + [0x7f, 3, 0] + mechanism + Array(repeating: 0, count: 32)
        let ready = [5] + Array("READY".utf8) + [11] + Array("Socket-Type".utf8) + [0, 0, 0, 4] + Array("PUSH".utf8)
        say(greeting, on: descriptor)
        hear(64, on: descriptor)
        say([4, UInt8(ready.count)] + ready, on: descriptor)
        // Its own "ready" is as long, or longer.
        hear(28, on: descriptor)
        say(bytes, on: descriptor)
        return descriptor
    }

    private func say(_ bytes: [UInt8], on descriptor: Int32) {
        #expect(Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    private func hear(_ count: Int, on descriptor: Int32) {
        var heard = 0
        var buffer = [UInt8](repeating: 0, count: count)
        #expect(
            waitUntil {
                heard += max(recv(descriptor, &buffer, count - heard, Int32(MSG_DONTWAIT)), 0)
                return heard == count
            })
    }

    /// Whether the other side closes the connection.
    private func isClosed(_ descriptor: Int32) -> Bool {
        waitUntil {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            return count == 0 || count < 0 && errno == ECONNRESET
        }
    }

    private func frame(_ size: Int) throws -> [UInt8] {
        let header = WireHeader(id: 1, count: 1)
        var bytes = [UInt8](repeating: 0, count: size)
        bytes.withUnsafeMutableBytes { bytes in
            header.write(to: bytes)
            bytes.setLittle(UInt32(size - header.componentsOffset), at: header.sizesOffset)
        }
        return bytes
    }

    private func announced(_ size: UInt64) -> [UInt8] { [2] + withUnsafeBytes(of: size.bigEndian) { Array($0) } }

    @Test func `a message as large as the port takes arrives, and a larger one is refused by the receiver`() throws {
        let (port, path) = try exposed(messageLimit: 1000)
        let good = try connected(to: path, saying: announced(1000) + frame(1000))
        #expect(try port.receive(before: .patience).bytes?.count == 1000 - Wire.headerSize - 4)
        let bad = try connected(to: path, saying: announced(1001) + frame(1001))
        #expect(isClosed(bad))
        say(announced(100) + (try frame(100)), on: good)
        #expect(try port.receive(before: .patience).bytes?.count == 100 - Wire.headerSize - 4)
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
        close(good)
        close(bad)
    }

    @Test(arguments: [(64 << 20) + 1, 1 << 40, UInt64(Int64.max), .max])
    func `a size that is announced but never sent is refused before anything is allocated`(_ size: UInt64) throws {
        let (port, path) = try exposed(messageLimit: 64 << 20)
        let bad = try connected(to: path, saying: announced(size))
        #expect(isClosed(bad))
        close(bad)
        try port.sendRight.send(MachPort.Message(id: 5))
        #expect(try port.receive(before: .patience).id == 5)
    }

    @Test func `a million components that are not there are a malformed frame`() throws {
        let (port, path) = try exposed(messageLimit: 64 << 20)
        var bytes = try frame(100)
        for count in [1_000_000, UInt32.max] {
            bytes.withUnsafeMutableBytes { $0.setLittle(count, at: 8) }
            let bad = try connected(to: path, saying: announced(100) + bytes)
            #expect(waitUntil { (try? port.receive(before: .distantPast)) == nil && port.malformedCount > 0 })
            close(bad)
        }
        let good = try connected(to: path, saying: announced(100) + frame(100))
        #expect(try port.receive(before: .patience).id == 1)
        #expect(waitUntil { (try? port.receive(before: .distantPast)) == nil && port.malformedCount == 2 })
        close(good)
    }
}
