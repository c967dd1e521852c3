import CBOR
import Ports
import TypedPorts

/// One message over NATS: the letters PRT, a byte with the version of the format, and this value in CBOR.
struct Frame<Head: Codable & Sendable>: Codable, Sendable {
    /// A ``Question`` or an ``Answer``.
    let head: Head
    /// The bytes of a request, a reply or elements. They are not in the head, because CBOR copies what is in an enum.
    let components: [[UInt8]]

    init(_ head: Head, _ components: [[UInt8]] = []) { (self.head, self.components) = (head, components) }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(components.reduce(128) { $0 + 9 + $1.count })
        bytes += FrameFormat.name + [FrameFormat.version]
        // Fails only beyond a nesting depth that our types never reach.
        try? CBOR.encode(self, into: &bytes)
        return bytes
    }

    /// Reads a frame, which any client of NATS may have sent.
    init(from bytes: [UInt8]) throws(MalformedFrame) {
        let start = FrameFormat.name.count + 1
        guard bytes.count >= start, bytes.starts(with: FrameFormat.name) else { throw MalformedFrame() }
        let version = bytes[start - 1]
        guard version == FrameFormat.version else { throw MalformedFrame(version: version) }
        do { self = try CBOR.decode(from: bytes.span.bytes.extracting(droppingFirst: start)) } catch {
            throw MalformedFrame()
        }
    }

    func message(id: UInt32) -> MachPort.Message { MachPort.Message(id: id, components.map { .bytes($0) }) }
}

enum FrameFormat {
    /// In version 1, the value was not in CBOR.
    static let version: UInt8 = 2
    fileprivate static let name = Array("PRT".utf8)
}

/// The bytes are not a frame of this version.
struct MalformedFrame: Error {
    /// The version of a frame of another version; nil for bytes that are not a frame at all.
    var version: UInt8?
}

extension MachPort.Message {
    /// The components as bytes, which can go to another machine.
    /// - Throws: `NetworkRequestError.staysHere`.
    func networkComponents() throws -> [[UInt8]] {
        try components.map { component in
            switch component {
            case .bytes(let bytes): return bytes
            case .descriptor(let descriptor):
                // The bytes of a `MessageBytes` that came as memory.
                guard let memory = descriptor.lentMemory else {
                    throw NetworkRequestError.staysHere(what: "a descriptor, or shared memory,")
                }
                return memory.withBytes { bytes in bytes.withUnsafeBytes { Array($0) } }
            case .port, .receiveRight: throw NetworkRequestError.staysHere(what: "a right to a port")
            }
        }
    }
}
