import Glibc

/// Gathers output, so that many small pieces take few system calls.
///
/// Writing to a pipe which nobody reads fails with `EPIPE` in a program that ignores `SIGPIPE`, and kills any other.
struct OutputBuffer: ~Copyable {
    private static let capacity = 64 * 1024

    private let descriptor: Int32
    private var bytes: [UInt8] = []

    /// Borrows the descriptor: it stays open.
    init(to descriptor: Int32) {
        self.descriptor = descriptor
        bytes.reserveCapacity(Self.capacity)
    }

    mutating func write(_ piece: some Sequence<UInt8>) throws(IOError) {
        bytes += piece
        if bytes.count >= Self.capacity { try flush() }
    }

    /// To be called at the end as well: what was not flushed by then is lost.
    mutating func flush() throws(IOError) {
        var written = 0
        while written < bytes.count {
            written += try systemCall {
                bytes.withUnsafeBytes { bytes in
                    let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
                    return Glibc.write(descriptor, rest.baseAddress, rest.count)
                }
            }
        }
        bytes.removeAll(keepingCapacity: true)
    }
}
