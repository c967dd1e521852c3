import RunLoopLocks

/// The descriptors that a message of another process has brought, and the memory that its reader has found among them.
final class ReceivedDescriptors: Sendable {
    let descriptors: [MessageDescriptor]
    private let port: SendChannel?

    /// By the place among the descriptors. The objects that are given out keep the memory.
    private let memory = Lock<[Int: MappedMemory]>([:])

    init(_ count: Int, of passed: PassedDescriptors?, at port: SendChannel?) {
        descriptors = PassedDescriptors.descriptors(count, of: passed)
        self.port = port
    }

    /// Maps frozen memory whose bytes count as bytes of the message.
    /// - Parameter size: The size of the message without memory.
    func memory(_ place: Int, besides size: Int) throws(PortError) -> MappedMemory {
        let limit = port?.right.limit ?? 0
        let found = try memory.withLock { (memory) throws(PortError) -> Found in
            if let mapped = memory[place] { return .mapped(mapped) }
            let size = memory.values.reduce(size) { $0 + $1.byteCount }
            // Checked before the memory is mapped.
            let added = Int(clamping: try descriptors[place].frozenSize())
            guard added <= limit - size else { return .tooLarge(size.addingReportingOverflow(added).partialValue) }
            let mapped = try descriptors[place].mapFrozen()
            memory[place] = mapped
            return .mapped(mapped)
        }
        switch found {
        case .mapped(let mapped): return mapped
        case .tooLarge(let size):
            throw port.map { .messageTooLarge(port: $0.identity, size: size, limit: limit) } ?? .descriptorLost
        }
    }

    private enum Found {
        case mapped(MappedMemory)
        /// The size that the message would have.
        case tooLarge(Int)
    }
}
