import Dispatch
import Glibc
import RunLoops
import TestSupport
import XPC

/// Threads that make sessions with a service whose process may end at any time, and that count what comes of each request
/// and each session.
package final class Load: Sendable {
    /// The counts of a load. Each request and each session has to end once.
    package struct Result: Codable, Sendable {
        package var requests = 0
        package var replies = 0
        package var failures = 0
        /// Requests and sessions with more than one end.
        package var doubles = 0
        /// Requests and sessions without an end.
        package var missing = 0
        package var sessions = 0
        package var sessionErrors = 0
        /// Replies that are not those of their requests.
        package var wrong = 0
        package var descriptorsBefore = 0
        package var descriptorsAfter = 0
        package var heapBefore = 0
        package var heapAfter = 0
        package init() {}
    }

    private let result = Shared(Result())
    /// The number of ends of each request and of each session.
    private let ends = Shared<[Int: Int]>([:])
    private let last = Shared(0)

    private func begin() -> Int {
        let number = last.withLock { last in
            last += 1
            return last
        }
        ends.withLock { $0[number] = 0 }
        return number
    }

    private func end(_ number: Int) { ends.withLock { $0[number, default: 0] += 1 } }

    private func count(_ change: (inout Result) -> Void) { result.withLock { change(&$0) } }

    private func makeSession() -> XPCSession? {
        let number = begin()
        do {
            let session = try XPCSession(machService: "service", cancellationHandler: { _ in self.end(number) })
            count { $0.sessions += 1 }
            return session
        } catch {
            // An initializer that throws has told the end.
            end(number)
            count { $0.sessionErrors += 1 }
            return nil
        }
    }

    private func ask(_ session: XPCSession, _ command: Command) throws {
        let number = begin()
        count { $0.requests += 1 }
        do {
            try session.send(command) { (reply: Swift.Result<Report, any Error>) in
                self.end(number)
                self.count {
                    switch reply {
                    case .success(let report):
                        $0.replies += 1
                        if command.verb == .echo, report.text != command.text { $0.wrong += 1 }
                    case .failure: $0.failures += 1
                    }
                }
            }
        } catch {
            end(number)
            count { $0.failures += 1 }
            throw error
        }
    }

    private func askAndWait(_ session: XPCSession, _ text: String) throws {
        count { $0.requests += 1 }
        do {
            let report: Report = try session.sendSync(Command(.echo, text))
            count {
                $0.replies += 1
                if report.text != text { $0.wrong += 1 }
            }
        } catch {
            count { $0.failures += 1 }
            throw error
        }
    }

    private func run(_ random: inout SplitMix64) {
        guard let session = makeSession() else { return _ = usleep(1000) }
        defer { session.cancel(reason: "the load goes on with another") }
        for step in 0..<Int.random(in: 1...200, using: &random) {
            do {
                switch Int.random(in: 0..<12, using: &random) {
                case 0: try ask(session, Command(.push, count: 3))
                case 1: try ask(session, Command(.keep))
                case 2: try ask(session, Command(.drop))
                case 3: try session.send(Command(.note, "\(step)"))
                case 4: try askAndWait(session, "\(step)")
                case 5 where step > 100: try session.send(Command(.cancel, "by request"))
                default: try ask(session, Command(.echo, "\(step)"))
                }
            } catch { return }
        }
        // The replies so far.
        _ = try? askAndWait(session, "last")
    }

    package static func run(seed: UInt64, for time: Duration) -> Result {
        let load = Load()
        // The library keeps some memory from its first use on, which is no leak.
        var random = SplitMix64(seed: seed)
        repeat { load.run(&random) } while load.result.withLock { $0.replies < 100 }
        _ = waitUntil { load.isOver }
        let (descriptors, heap) = (openDescriptors(), heapUse())
        let deadline = ContinuousClock.now + time
        let threads = (1...4).map { thread in
            Helper {
                var random = SplitMix64(seed: seed &+ UInt64(thread))
                while ContinuousClock.now < deadline { load.run(&random) }
            }
        }
        for thread in threads { thread.join() }
        _ = waitUntil { load.isOver }
        load.count { result in
            let ends = load.ends.withLock { $0 }
            result.missing = ends.values.count { $0 == 0 }
            result.doubles = ends.values.count { $0 > 1 }
            (result.descriptorsBefore, result.heapBefore) = (descriptors, heap)
        }
        load.ends.withLock { $0 = [:] }
        // Connections to processes that have ended are closed soon, and so are the idle threads of dispatch queues, each of
        // which keeps some memory.
        _ = waitUntil(before: .now + .seconds(30)) {
            openDescriptors() <= descriptors + 8 && heapUse() <= heap + (2 << 20)
        }
        load.count { ($0.descriptorsAfter, $0.heapAfter) = (openDescriptors(), heapUse()) }
        return load.result.withLock { $0 }
    }

    private var isOver: Bool { ends.withLock { $0.values.allSatisfy { $0 > 0 } } }
}
