import Glibc

/// Two clients at a time, which block their thread.
func runClients(_ path: String) throws {
    print("Client 1: I connect, and send “hello”.")
    let first = try connectedSocket(path)
    try send("hello", to: first)
    print("Client 1: the answer is “\(try receive(5, from: first))”.")

    print("Client 2: I connect, too, and send “port” before the first has gone.")
    let second = try connectedSocket(path)
    try send("port", to: second)
    print("Client 2: the answer is “\(try receive(4, from: second))”.")
    try finish(second, "Client 2")

    print("Client 1: I send a hundred thousand times “loop”, and read when all is sent or the server waits for me.")
    let bytes = try exchange(String(repeating: "loop", count: 100_000), over: first)
    print("Client 1: \(bytes == Array(String(repeating: "LOOP", count: 100_000).utf8) ? "all" : "less") has come back.")
    try finish(first, "Client 1")
}

/// Sends no more, and waits until the server closes its side.
private func finish(_ descriptor: Int32, _ name: String) throws(SocketError) {
    shutdown(descriptor, Int32(SHUT_WR))
    guard try read(1, from: descriptor).isEmpty else { throw SocketError("the server sends what nobody asked for") }
    close(descriptor)
    print("\(name): the server has closed its side.")
}

private func send(_ text: String, to descriptor: Int32) throws(SocketError) {
    guard Glibc.write(descriptor, text, text.utf8.count) == text.utf8.count else { throw .last("write") }
}

private func receive(_ count: Int, from descriptor: Int32) throws(SocketError) -> String {
    var bytes: [UInt8] = []
    while bytes.count < count {
        let more = try read(count - bytes.count, from: descriptor)
        if more.isEmpty { throw SocketError("the server has closed the connection") }
        bytes += more
    }
    return String(decoding: bytes, as: UTF8.self)
}

private func read(_ count: Int, from descriptor: Int32) throws(SocketError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    let count = Glibc.read(descriptor, &bytes, bytes.count)
    guard count >= 0 else { throw .last("read") }
    return Array(bytes.prefix(count))
}

/// Writes as long as there is room, and reads when there is none.
private func exchange(_ text: String, over descriptor: Int32) throws(SocketError) -> [UInt8] {
    var (unsent, answer) = (Array(text.utf8)[...], [UInt8]())
    while answer.count < text.utf8.count {
        let count = unsent.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT)) }
        if count > 0 { unsent = unsent.dropFirst(count) }
        if count > 0, !unsent.isEmpty { continue }
        let more = try read(64 << 10, from: descriptor)
        if more.isEmpty { throw SocketError("the server has closed the connection") }
        answer += more
    }
    return answer
}
