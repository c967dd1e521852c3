import CRunLoopShims
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Ports

@Suite struct SharedMemoryTests {
    private func text(_ memory: SharedMemory) -> String {
        memory.withBytes { bytes in bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) } }
    }

    private func copy(_ text: String) throws -> SharedMemory {
        try SharedMemory(copying: Array(text.utf8).span.bytes)
    }

    /// A descriptor that a peer may have handed over.
    private func file(
        _ size: Int, _ text: String = "", mayBeSealed: Bool = true, seals: Int32 = 0
    ) -> MessageDescriptor {
        let file = makeMemoryFile(mayBeSealed: mayBeSealed)
        #expect(ftruncate(file, off_t(size)) == 0)
        #expect(pwrite(file, text, text.utf8.count, 0) == text.utf8.count)
        if seals != 0 { #expect(fcntl(file, 1033, seals) == 0) }  // F_ADD_SEALS
        return MessageDescriptor(owning: file)
    }

    private static let (shrink, grow, write): (Int32, Int32, Int32) = (2, 4, 8)

    @Test func `memory has what was written before it was frozen`() throws {
        var draft = try SharedMemory.Draft(byteCount: 1_000_000)
        draft.withMutableBytes { bytes in
            #expect(bytes.byteCount == 1_000_000)
            for offset in [0, 999_992] {
                bytes.storeBytes(of: UInt64(offset) + 7, toByteOffset: offset, as: UInt64.self)
            }
        }
        let memory = try draft.freeze()
        memory.withBytes { bytes in
            #expect(bytes.byteCount == memory.byteCount)
            #expect(bytes.unsafeLoad(fromByteOffset: 999_992, as: UInt64.self) == 999_999)
            #expect(bytes.unsafeLoad(fromByteOffset: 0, as: UInt64.self) == 7)
            #expect(bytes.unsafeLoad(fromByteOffset: 500_000, as: UInt64.self) == 0)
        }
        #expect(text(try copy("hello")) == "hello")
    }

    @Test func `nobody can change frozen memory`() throws {
        let memory = try copy("hello")
        let number = memory.mapped.descriptor.number
        #expect(pwrite(number, "X", 1, 0) == -1)
        #expect(ftruncate(number, 1) == -1)
        #expect(ftruncate(number, 100) == -1)
        #expect(mmap(nil, 5, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0) == MAP_FAILED)
        let path = "/proc/self/fd/\(number)"
        let again = open(path, O_RDWR)
        if again >= 0 {
            #expect(pwrite(again, "X", 1, 0) == -1)
            close(again)
        }
        #expect(text(memory) == "hello")
    }

    @Test func `a descriptor leads to the same memory`() throws {
        let memory = try copy("hello")
        let descriptors = try (0..<2).map { _ in try memory.makeDescriptor() }
        let other = try SharedMemory(descriptors[0])
        #expect(text(other) == "hello")
        #expect(other != memory)
        #expect(text(try SharedMemory(descriptors[0])) == "hello")
        // Nobody may write it.
        #expect(errorKind { _ = try SharedBuffer(descriptors[1]) } == "transport")
        let buffer = try SharedBuffer(byteCount: 5)
        let descriptor = try buffer.makeDescriptor()
        #expect(errorKind { _ = try SharedMemory(descriptor) } == "untrustedMemory")
        let same = try SharedBuffer(descriptor)
        buffer.withUnsafeMutableBytes { $0.storeBytes(of: 42, as: UInt8.self) }
        #expect(same.withUnsafeMutableBytes { $0.load(as: UInt8.self) } == 42)
    }

    @Test func `a descriptor of anything else is an error`() throws {
        let (shrink, grow, write) = (Self.shrink, Self.grow, Self.write)
        #expect(text(try SharedMemory(file(5, "hello", seals: shrink | grow | write))) == "hello")
        let mutable = [
            file(5, "hello"), file(5, "hello", seals: shrink | write), file(5, "hello", seals: grow | write),
            file(5, "hello", mayBeSealed: false),
        ]
        let holes = [file(1 << 40, "hello", seals: shrink | grow), file(0, seals: shrink | grow)]
        let others = ["/", "/dev/full", "/dev/zero", "/proc/self/status"].map { (path: String) in
            MessageDescriptor(owning: open(path, O_RDONLY))
        }
        for (number, descriptor) in (mutable + holes + others).enumerated() {
            #expect(errorKind { _ = try SharedMemory(descriptor) } == "untrustedMemory", "\(number)")
            #expect(errorKind { _ = try SharedBuffer(descriptor) } == "untrustedMemory", "\(number)")
        }
        #expect(errorKind { _ = try SharedMemory(file(5, "hello", seals: shrink | grow)) } == "untrustedMemory")
        let lost = MessageDescriptor(missing: .descriptorLost)
        #expect(portError { _ = try SharedMemory(lost) } == .descriptorLost)
        #expect(portError { _ = try SharedBuffer(lost) } == .descriptorLost)
    }

    @Test(arguments: [0, -1, 1 << 31, Int.max])
    func `a size that no message may have is an error`(_ size: Int) throws {
        #expect(errorKind { _ = try SharedMemory.Draft(byteCount: size) } == "invalidLimit")
        #expect(errorKind { _ = try SharedBuffer(byteCount: size) } == "invalidLimit")
    }

    @Test func `no bytes are no memory`() {
        #expect(errorKind { _ = try SharedMemory(copying: [UInt8]().span.bytes) } == "invalidLimit")
    }

    @Test func `the descriptor and the mapping end with the last reference`() throws {
        var files: [UInt64] = []
        do {
            let mappings = [try copy("hello").mapped, try SharedBuffer(byteCount: 10).mapped]
            files = mappings.compactMap { Self.file($0.descriptor.number) }
            #expect(try files.allSatisfy(Self.isMapped))
        }
        #expect(Set(files).count == 2)
        #expect(try !files.contains(where: Self.isMapped))
        let isOpen = (0..<Int32(1024)).contains { number in Self.file(number).map(files.contains) == true }
        #expect(!isOpen)
    }

    /// The number of the memory file behind a descriptor, which no other one of the machine has.
    private static func file(_ descriptor: Int32) -> UInt64? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, crl_memory_size(descriptor) > 0 else { return nil }
        return UInt64(status.st_ino)
    }

    private static func isMapped(_ file: UInt64) throws -> Bool {
        let maps = try #require(FileHandle(forReadingAtPath: "/proc/self/maps")).readDataToEndOfFile()
        return String(decoding: maps, as: UTF8.self).split(separator: "\n").contains { line in
            line.contains("/memfd:ports") && line.split(separator: " ").contains("\(file)")
        }
    }
}
