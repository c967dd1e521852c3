import CCoreFoundationPorts
import Glibc

/// The memory that a complex message carries outside of its bytes. In the message of the library, each piece is a component
/// behind the one of the bytes.
enum MachMemory {
    private static let countSize = MemoryLayout<mach_msg_body_t>.size
    private static let descriptorSize = MemoryLayout<mach_msg_ool_descriptor_t>.size

    /// The descriptors at the beginning of the bytes behind a header. Nil when there is another kind, or they do not fit.
    static func descriptors(_ bytes: UnsafeRawBufferPointer) -> [mach_msg_ool_descriptor_t]? {
        guard bytes.count >= countSize else { return nil }
        let count = Int(bytes.loadUnaligned(as: UInt32.self))
        guard count <= (bytes.count - countSize) / descriptorSize else { return nil }
        let all = (0..<count).map { index in
            bytes.loadUnaligned(fromByteOffset: countSize + index * descriptorSize, as: mach_msg_ool_descriptor_t.self)
        }
        return all.allSatisfy { $0.type == UInt32(MACH_MSG_OOL_DESCRIPTOR) } ? all : nil
    }

    /// A copy of the memory of each descriptor. Nil when a descriptor has a size without an address.
    static func contents(_ descriptors: [mach_msg_ool_descriptor_t]) -> [[UInt8]]? {
        guard descriptors.allSatisfy({ $0.address != nil || $0.size == 0 }) else { return nil }
        return descriptors.map { Array(UnsafeRawBufferPointer(start: $0.address, count: Int($0.size))) }
    }

    /// Puts received pieces into memory of their own, and their addresses into the descriptors of the bytes. False when the
    /// pieces are not those of the descriptors, or no memory is left.
    static func place(_ pieces: [[UInt8]], in bytes: inout [UInt8]) -> Bool {
        guard let descriptors = bytes.withUnsafeBytes(descriptors), !pieces.isEmpty,
            descriptors.map({ Int($0.size) }) == pieces.map(\.count)
        else { return false }
        var placed: [mach_msg_ool_descriptor_t] = []
        for (descriptor, piece) in zip(descriptors, pieces) {
            var descriptor = descriptor
            descriptor.address = nil
            if !piece.isEmpty {
                guard let memory = mmap(nil, piece.count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                    memory != MAP_FAILED
                else {
                    deallocate(placed)
                    return false
                }
                memory.copyMemory(from: piece, byteCount: piece.count)
                descriptor.address = memory
            }
            placed.append(descriptor)
        }
        bytes.withUnsafeMutableBytes { bytes in
            for (index, descriptor) in placed.enumerated() {
                withUnsafeBytes(of: descriptor) { from in
                    let start = countSize + index * descriptorSize
                    UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + descriptorSize]).copyMemory(
                        from: from)
                }
            }
        }
        return true
    }

    static func deallocate(_ descriptors: [mach_msg_ool_descriptor_t]) {
        for descriptor in descriptors where descriptor.size > 0 {
            if let address = descriptor.address { munmap(address, Int(descriptor.size)) }
        }
    }
}
