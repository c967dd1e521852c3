import Glibc
import Ports
import RunLoops

/// Sends numbered messages of one stream to the port named "test", and ends when all are out. With no count it goes on
/// until the port is invalid.
func flood(_ stream: UInt32, _ count: UInt32?) throws -> Never {
    alarm(600)
    MachPort.flushBound = .seconds(120)
    let right = try test()
    let bytes = withUnsafeBytes(of: stream.littleEndian) { Array($0) }
    let result = Result { () throws(PortError) in
        for number in 0..<(count ?? .max) {
            try right.send(id: number, bytes: bytes.span.bytes, before: .now + .seconds(120))
        }
    }
    switch result {
    case .failure(.isInvalid) where count == nil, .failure(.becameInvalid) where count == nil, .success: exit(0)
    case .failure(let error): fail("\(error)")
    }
}
