import Glibc
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing
import XPCTestHelper

@testable import XPC

/// Sessions of one process with services that are killed and stopped at random. `SOAK` makes it long, for as many minutes as
/// `SOAK_MINUTES` says, or ten.
@Suite(.ownThread) struct LoadTests {
    private static let seconds =
        Scale.isLong ? 60 * (getenv("SOAK_MINUTES").flatMap { Int(String(cString: $0)) } ?? 10) : 4

    private let names = Names()

    private func start(_ words: String...) -> Child {
        // The load has its length from the variable.
        let variables = ["PORTS_DIRECTORY": names.folder.path].merging(Scale.isLong ? ["SOAK": "1"] : [:]) { $1 }
        return Child([Child.folder + "/XPCTestHelper"] + words, environment: variables)
    }

    @Test(.timeLimit(.minutes(90)))
    func `every request and every session ends once, and nothing is left, while processes are killed at random`() throws
    {
        let seed = drawnSeed()
        var random = SplitMix64(seed: seed)
        let (result, done) = (Shared<Load.Result?>(nil), Latch())
        let results = try names.listener(named: "results") { request in
            request.accept { (report: Load.Result) -> (any Encodable)? in
                result.withLock { $0 = report }
                done.open()
                return Report(text: "thanks")
            }
        }
        var service = start("serve")
        _ = try names.runtime.nameServer.waitForPort(forName: "service", before: .patience)
        let load = start("load", "\(seed)", "\(Self.seconds)")
        var (kills, stops, clients) = (0, 0, [Child]())
        let deadline = ContinuousClock.now + .seconds(Self.seconds)
        while ContinuousClock.now < deadline {
            _ = done.wait(until: .now + .milliseconds(Int.random(in: 5...150, using: &random)))
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                service.kill()
                service.wait()
                service = start("serve")
                kills += 1
            case 2:
                service.stop()
                _ = done.wait(until: .now + .milliseconds(Int.random(in: 1...50, using: &random)))
                service.signal(SIGCONT)
                stops += 1
            case 3: clients.append(start("connect"))
            default: if !clients.isEmpty { clients.removeFirst().kill() }
            }
        }
        // The requests that nobody answers end with the last service.
        _ = done.wait(until: .now + .seconds(2))
        service.kill()
        #expect(done.wait(until: .patience))
        let counts = try #require(result.withLock { $0 })
        print("load: \(kills) kills, \(stops) stops, \(counts)")
        #expect(counts.requests == counts.replies + counts.failures)
        #expect(counts.replies > 0 && counts.sessions > 0)
        #expect((counts.missing, counts.doubles, counts.wrong) == (0, 0, 0))
        #expect(counts.descriptorsAfter <= counts.descriptorsBefore + 8)
        // A leak of each session or request would be many times as much.
        #expect(counts.heapAfter - counts.heapBefore < 8 << 20 + counts.sessions * 16)
        load.wait()
        results.cancel()
    }
}
