import Glibc
import Ports
import TestSupport
import TypedPorts

/// Asks for a number of byte strings, each large enough for a batch of its own.
package struct Blocks: PortStreamRequest {
    package typealias Element = MessageBytes
    package var count: Int
    package var size: Int
    package static let requestName = "Blocks"

    package init(count: Int, size: Int = 256 << 10) { (self.count, self.size) = (count, size) }
}

/// Asks how many of the server's streams have been asked for an element beyond their last.
package struct ExhaustedStreams: PortRequest {
    package typealias Reply = Int
    package static let requestName = "ExhaustedStreams"
    package init() {}
}

/// Asks the server to finish and to exit, with 0 when all was taken in the time, in milliseconds.
package struct Finish: PortRequest {
    package typealias Reply = EmptyReply
    package static let requestName = "Finish"
    package var timeout: Int
    package init(timeout: Int) { self.timeout = timeout }
}

/// A server of streams, or a reader, in a process of its own.
@main enum StreamServer {
    static func main() async throws {
        // The process ends also when its test does not end it.
        alarm(150)
        if CommandLine.arguments.dropFirst().first == "read" { try await readOne() }
        let (server, exhausted) = (try RequestServer(name: "blocks"), Shared(0))
        server.handle(Blocks.self) { blocks in
            let left = Shared(blocks.count)
            return AsyncStream<MessageBytes>(unfolding: {
                let isLeft = left.withLock { left in
                    left -= 1
                    return left >= 0
                }
                if isLeft { return MessageBytes([UInt8](repeating: 7, count: blocks.size)) }
                exhausted.withLock { $0 += 1 }
                return nil
            })
        }
        server.handle(ExhaustedStreams.self) { _ in exhausted.withLock { $0 } }
        server.handle(Finish.self) { finish in
            Task {
                let isWhole = await server.finish(before: .now + .milliseconds(finish.timeout))
                exit(isWhole ? 0 : 1)
            }
            return EmptyReply()
        }
        try await server.run()
        // The task above exits.
        while true { try await Task.sleep(for: .seconds(100)) }
    }

    /// Reads the first element of a stream, and no more.
    private static func readOne() async throws -> Never {
        var iterator = RequestClient("blocks").stream(Blocks(count: 12)).makeAsyncIterator()
        _ = try await iterator.next()
        while true { try await Task.sleep(for: .seconds(100)) }
    }
}
