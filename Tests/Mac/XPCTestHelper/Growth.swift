import Glibc
import TestSupport
import XPC

/// Sessions one after the other, and what the heaps of both processes have grown by in the last two thirds of them.
enum Growth {
    /// Dispatch keeps memory for blocks, up to this number for each of its threads.
    private static let (mostBlocks, blockSize) = (1024, 80)
    /// The blocks that a session needs, at most.
    private static let blocks = 13
    /// What is there from the first use of a part on, and varies.
    private static let slack = 512 << 10

    private static func ask(_ command: Command) throws -> String {
        let session = try XPCSession(machService: "service")
        let report: Report = try session.sendSync(command)
        session.cancel(reason: "done")
        return report.text
    }

    /// Ends the process with an error when a heap has grown with the sessions.
    static func check(_ count: Int) -> Never {
        do {
            for _ in 0..<count / 3 { _ = try ask(Command(.echo)) }
            let first = try uses()
            for _ in count / 3..<count { _ = try ask(Command(.echo)) }
            for (process, (first, last)) in zip(["client", "service"], zip(first, try uses())) {
                let sessions = count - count / 3
                let kept = blockSize * min(last.threads * mostBlocks, sessions * blocks)
                let growth = last.heap - first.heap
                print("\(process): \(growth) bytes of heap for \(sessions) sessions, \(last.threads) threads")
                if growth > slack + kept + 32 * sessions { fail("the \(process) grows") }
            }
            fflush(nil)
            exit(0)
        } catch {
            fail("\(error)")
        }
    }

    private static func uses() throws -> [(heap: Int, threads: Int)] {
        let service = try ask(Command(.usage)).split(separator: " ").compactMap { Int($0) }
        guard service.count == 2 else { fail("no usage") }
        return [(heapUse(), liveThreads()), (service[0], service[1])]
    }
}
