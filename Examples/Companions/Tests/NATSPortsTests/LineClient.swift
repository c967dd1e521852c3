import Foundation
import Testing

/// A client that knows only NATS's own protocol of lines, as a program in another language would.
final class LineClient {
    struct Message {
        var headers = ""
        var body = Data()
        /// The subject for an answer.
        var reply = ""
    }

    private let descriptor: Int32
    private let subject: String
    private var received = Data()

    /// Connects, and subscribes to a subject.
    init(_ nats: NATSServer, subject: String) {
        self.subject = subject
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        // Without a message, the test fails.
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(nats.port).bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        #expect(isConnected)
        send("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB \(subject) 1")
    }

    deinit { close(descriptor) }

    private func send(_ line: String, _ body: [UInt8]? = nil) {
        let end = Array("\r\n".utf8)
        let bytes = Array(line.utf8) + end + (body.map { $0 + end } ?? [])
        _ = write(descriptor, bytes, bytes.count)
    }

    /// - Parameter reply: Where the answer goes to; nil when there is none.
    func publish(_ body: [UInt8], to subject: String, reply: String? = nil) {
        send("PUB \(subject) \(reply.map { "\($0) " } ?? "")\(body.count)", body)
    }

    /// Blocks until the server has handled all that this client has sent.
    func flush() {
        send("PING")
        _ = wait(for: "PONG\r\n")
    }

    /// Blocks until a message comes to the subject; without one, the message is empty.
    func next() -> Message {
        guard wait(for: "MSG \(subject) 1 ") else { return Message() }
        var line = Data()
        while !line.ends(with: "\r\n") {
            guard let byte = take(1) else { return Message() }
            line += byte
        }
        // With headers, their size comes first.
        let words = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        let sizes = words.compactMap { Int($0) }
        guard let size = sizes.last, let content = take(size) else { return Message() }
        let headerSize = sizes.count > 1 ? sizes[0] : 0
        return Message(
            headers: String(decoding: content.prefix(headerSize), as: UTF8.self), body: content.dropFirst(headerSize),
            reply: words.first.flatMap { Int($0) == nil ? String($0) : nil } ?? "")
    }

    /// Drops what comes before a text, and the text.
    private func wait(for text: String) -> Bool {
        while true {
            if let found = received.range(of: Data(text.utf8)) {
                received = Data(received[found.upperBound...])
                return true
            }
            if !receive() { return false }
        }
    }

    private func take(_ count: Int) -> Data? {
        while received.count < count { if !receive() { return nil } }
        defer { received = Data(received.dropFirst(count)) }
        return Data(received.prefix(count))
    }

    private func receive() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = read(descriptor, &buffer, buffer.count)
        if count > 0 { received += buffer[..<count] }
        return count > 0
    }
}

extension Data {
    fileprivate func ends(with text: String) -> Bool { suffix(text.utf8.count) == Data(text.utf8) }
}

/// Asks NATS by its own protocol.
func ask(_ nats: NATSServer, _ subject: String, _ question: [UInt8] = []) -> LineClient.Message {
    let client = LineClient(nats, subject: "here")
    client.publish(question, to: subject, reply: "here")
    return client.next()
}
