import Glibc
import Ports
import RunLoops
import TestSupport

/// Sends numbered messages of one stream to the port named "test", and ends when all are out. With no count it goes on
/// until the port is invalid.
func flood(_ stream: UInt32, _ count: UInt32?) throws -> Never {
    alarm(600)
    try PortRuntime.shared.setFlushBound(.seconds(120))
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

/// Asks the port named "asked" for large replies, with several threads, without end.
func nag() throws -> Never {
    let server = try RemoteMessagePort(name: "asked")
    let data = [UInt8](repeating: 1, count: 100_000)
    let threads = try (0..<2).map { _ in
        try RunLoopThread { _ in
            while true { _ = try? server.request(id: 1, data, timeout: .milliseconds(5)) }
        }
    }
    _ = try server.request(id: 1, data, timeout: .seconds(30))
    try report(nil)
    while true { _ = withExtendedLifetime(threads) { pause() } }
}
