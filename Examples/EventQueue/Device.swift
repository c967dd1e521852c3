import Glibc

/// A device whose descriptor is readable when there are events: one byte each.
struct Device {
    let output: Int32
    private let input: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { fatalError("pipe: \(String(cString: strerror(errno)))") }
        (output, input) = (ends[0], ends[1])
    }

    func write(_ events: String) {
        let bytes = Array(events.utf8)
        precondition(Glibc.write(input, bytes, bytes.count) == bytes.count)
    }

    func read() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 64) { buffer, count in
            count = max(0, Glibc.read(output, buffer.baseAddress, buffer.count))
        }
    }

    func close() {
        Glibc.close(input)
        Glibc.close(output)
    }
}
