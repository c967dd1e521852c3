import Glibc
import TestSupport
import Testing

@testable import Ports

/// A sender to a port's socket that does not go through the library, nor through libzmq.
final class RawStream: Sendable {
    let descriptor: Int32

    init(to path: String) throws {
        descriptor = try LocalSocket.make(.stream)
        #expect(waitUntil { LocalSocket.connect(descriptor, to: path) == 0 })
    }

    /// Says what every ZeroMQ peer says first, each part when the other has answered the one before, and then something.
    convenience init(to path: String, ready: [UInt8] = RawStream.ready, saying bytes: [UInt8]) throws {
        try self.init(to: path)
        say(Self.greeting)
        hear(64)
        say(ready)
        // Its own "ready" is as long, or longer.
        hear(28)
        say(bytes)
    }

    deinit { close(descriptor) }

    static let greeting: [UInt8] = {
        let mechanism = Array("NULL".utf8) + Array(repeating: 0, count: 16)
        return [0xff] + Array(repeating: 0, count: 8) + [0x7f, 3, 0] + mechanism + Array(repeating: 0, count: 32)
    }()

    static let ready = ready(["Socket-Type": "PUSH"])

    static func ready(_ properties: KeyValuePairs<String, String>) -> [UInt8] {
        let fields = properties.flatMap { name, value in
            [UInt8(name.utf8.count)] + name.utf8 + [0, 0, 0, UInt8(value.utf8.count)] + value.utf8
        }
        return [4, UInt8(6 + fields.count), 5] + Array("READY".utf8) + fields
    }

    /// The beginning of a message of so many bytes.
    static func announced(_ size: UInt64) -> [UInt8] { [2] + withUnsafeBytes(of: size.bigEndian) { Array($0) } }

    func say(_ bytes: [UInt8]) {
        #expect(Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    /// The same, whether or not the other side still listens.
    func shout(_ bytes: [UInt8]) { _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) }

    func hear(_ count: Int) {
        var heard = 0
        var buffer = [UInt8](repeating: 0, count: count)
        #expect(
            waitUntil {
                heard += max(recv(descriptor, &buffer, count - heard, Int32(MSG_DONTWAIT)), 0)
                return heard == count
            })
    }

    /// Whether the other side closes the connection.
    var isClosed: Bool {
        waitUntil {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            return count == 0 || count < 0 && errno == ECONNRESET
        }
    }
}
