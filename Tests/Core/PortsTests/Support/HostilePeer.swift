import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Ports

/// A control connection and a ring to a port, in which this process writes what no sender of the library writes.
final class HostilePeer {
    private let connection: ControlSocket
    private let port: UInt64
    let memory: RingMemory
    private let bell: Bell

    /// - Parameter path: The control socket of the port's process.
    init(at path: String, port: UInt64) throws {
        self.port = port
        connection = ControlSocket(try LocalSocket.makeControl())
        #expect(LocalSocket.connect(connection.descriptor, to: path) == 0)
        #expect(connection.send(ControlHello(incarnation: .random(), origin: 7, takesRings: true)))
        #expect(connection.send(.wantsRing(port, question: 1)))
        let (descriptor, other) = try #require(Self.ring(by: connection))
        memory = try #require(RingMemory(descriptor.number))
        bell = Bell(other)
    }

    convenience init(to port: MachPort) throws {
        let path = "\(port.receiver.exposure.directoryPath)/\(port.runtime.incarnation)/c"
        try self.init(at: path, port: port.receiver.id.number)
    }

    deinit {
        // A child of another test, which has not come to its program yet, may have the descriptor, too.
        cut()
        memory.unmap()
    }

    /// The descriptors of the first packet that has some.
    private static func ring(by connection: ControlSocket) -> (OwnedDescriptor, OwnedDescriptor)? {
        var descriptors: [OwnedDescriptor] = []
        waitUntil {
            withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize, alignment: 8) {
                _ = connection.receive(into: $0, &descriptors)
            }
            return descriptors.count == 2
        }
        return descriptors.count == 2 ? (descriptors[0], descriptors[1]) : nil
    }

    /// Ends the control connection, but keeps the ring.
    func cut() { connection.cut() }

    /// Reads what the owner has sent, and answers nothing.
    func ignore() {
        var descriptors: [OwnedDescriptor] = []
        withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize, alignment: 8) {
            _ = connection.receive(into: $0, &descriptors)
        }
    }

    func say(_ message: ControlMessage) { _ = connection.send(message) }

    /// Moves the head, and rings.
    func move(headTo offset: Int) {
        memory.head.pointee.store(UInt64(offset) << 2, ordering: .sequentiallyConsistent)
        bell.ring()
    }

    /// Writes a record at an offset, and moves the head behind it.
    func write(_ kind: UInt32, _ words: [UInt64], at offset: Int) {
        let size = 8 * words.count
        #expect(memory.populate(offset..<offset + 8 + size))
        (memory.records + offset).storeBytes(of: UInt64(kind) << 32 | UInt64(size), as: UInt64.self)
        for (index, word) in words.enumerated() {
            (memory.records + offset + 8 * (index + 1)).storeBytes(of: word, as: UInt64.self)
        }
        move(headTo: offset + 8 + size)
    }

    /// Announces a message whose memory does not come, and says that nothing was published.
    func announce(at offset: Int) {
        memory.published.pointee.store(0, ordering: .relaxed)
        write(RingMemory.Kind.large, [4, 0], at: offset)
    }
}
