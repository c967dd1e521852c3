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

/// Asks for the bytes of heap that the server has in use.
struct HeapUse: PortRequest {
    typealias Reply = Int
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
        alarm(Scale.isLong ? 7200 : 150)
        switch CommandLine.arguments.dropFirst().first {
        case "read": try await readOne()
        case "growth": try await checkGrowth(CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 0)
        default: break
        }
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
        server.handle(HeapUse.self) { _ in heapUse() }
        server.handle(Finish.self) { finish in
            Task {
                let isWhole = await server.finish(timeout: .milliseconds(finish.timeout))
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

    /// Sends requests, each tenth for a stream, and exits with an error when a heap has grown in the last two thirds of them.
    private static func checkGrowth(_ count: Int) async throws -> Never {
        let client = RequestClient("blocks")
        func uses() async throws -> [Int] { [heapUse(), try await client.request(HeapUse(), timeout: .seconds(60))] }
        func ask(_ count: Int) async throws {
            for number in 0..<count {
                _ = try await client.request(ExhaustedStreams(), timeout: .seconds(60))
                guard number % 10 == 0 else { continue }
                for try await _ in client.stream(Blocks(count: 3, size: 100), timeout: .seconds(60)) {}
            }
        }
        try await ask(count / 3)
        let first = try await uses()
        try await ask(count - count / 3)
        for (process, (first, last)) in zip(["client", "server"], zip(first, try await uses())) {
            print("\(process): \(last - first) bytes of heap for \(count - count / 3) requests")
            // What is there from the first use of a part on varies.
            if last - first > 512 << 10 + 2 * count { fail("the \(process) grows") }
        }
        fflush(nil)
        exit(0)
    }
}
