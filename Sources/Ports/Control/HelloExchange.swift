import Glibc

extension ControlHello {
    struct Malformed: Error {}

    /// Sends the hello. The first packet of a connection always has room.
    func send(to descriptor: Int32) {
        withUnsafeTemporaryAllocation(byteCount: Self.size, alignment: 8) { buffer in
            write(to: buffer)
            while Glibc.send(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL)) < 0, errno == EINTR {}
        }
    }

    /// Reads the peer's hello without waiting; nil at the end of the connection.
    static func receive(from descriptor: Int32) -> Result<ControlHello, Malformed>? {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 8) { buffer in
            var count: Int
            repeat {
                count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            } while count < 0 && errno == EINTR
            guard count > 0 else { return nil }
            return ControlHello(UnsafeRawBufferPointer(rebasing: buffer[..<count])).map { .success($0) }
                ?? .failure(Malformed())
        }
    }
}
