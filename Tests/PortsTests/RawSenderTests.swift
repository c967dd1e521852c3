import Glibc
import OwnThread
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

    private func frame(_ size: Int) throws -> [UInt8] {
        let header = WireHeader(id: 1, count: 1)
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
