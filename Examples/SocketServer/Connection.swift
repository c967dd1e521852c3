import Glibc
import RunLoops

/// A connection on the main thread's loop, from `accept` to the client's end.
@MainActor
final class Connection {
    private(set) var received = 0
    private let descriptor: Int32
    private var reading: ThreadRunLoop.Source1?
    private var writing: ThreadRunLoop.Source1?
    /// What the client has not made room for. Nothing is read meanwhile, so that this does not grow.
    private var unsent: ArraySlice<UInt8> = []
    private let ended: (Connection) -> Void

    /// Takes the descriptor over, also when the call throws.
    init(_ descriptor: Int32, ended: @escaping (Connection) -> Void) throws {
        self.descriptor = descriptor
        self.ended = ended
        let reading = ThreadRunLoop.Source1.descriptor(
            descriptor, closesOnInvalidation: true, label: "connection",
            handler: ThreadRunLoop.mainActor { [weak self] _, _ in self?.read() })
        self.reading = reading
        try ThreadRunLoop.main.add(reading)
    }

    private func read() {
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        // The client sends no more, or has gone.
        guard count > 0 else { return end() }
        received += count
        unsent = bytes[..<count]
        for index in unsent.indices { unsent[index] = UInt8(clamping: toupper(Int32(unsent[index]))) }
        write()
    }

    private func write() {
        while !unsent.isEmpty {
            // Without MSG_NOSIGNAL, a client that has gone would end the process with SIGPIPE.
            let count = unsent.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0 {
                if errno == EINTR { continue }
                return errno == EAGAIN ? waitForRoom() : end()
            }
            unsent = unsent.dropFirst(count)
        }
        guard let former = writing, let reading else { return }
        former.invalidate()
        writing = nil
        if (try? ThreadRunLoop.main.add(reading)) != true { end() }
    }

    /// Waits for room instead of for more to read.
    private func waitForRoom() {
        guard writing == nil, let reading else { return }
        let source = ThreadRunLoop.Source1.descriptor(
            descriptor, .writable, label: "connection",
            handler: ThreadRunLoop.mainActor { [weak self] _, _ in self?.write() })
        writing = source
        guard (try? ThreadRunLoop.main.add(source)) == true else { return end() }
        ThreadRunLoop.main.remove(reading)
    }

    private func end() {
        // First, for the client learns of the end from the close.
        ended(self)
        close()
    }

    func close() {
        writing?.invalidate()
        reading?.invalidate()
        (writing, reading) = (nil, nil)
    }
}
