import OwnThread
import TestSupport
import Testing

/// The heap after many sessions: a hundred thousand in the long form.
@Suite(.ownThread) struct GrowthTests {
    private let names = Names()

    @Test(.timeLimit(.minutes(60)))
    func `neither a service nor its client grows with the sessions that have ended`() throws {
        let variables = [
            "PORTS_DIRECTORY": names.folder.path,
            // The caches of malloc's threads would count as used.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        ].merging(Scale.isLong ? ["SOAK": "1"] : [:]) { $1 }
        let service = Child([Child.folder + "/XPCTestHelper", "serve"], environment: variables)
        _ = try names.runtime.nameServer.waitForPort(forName: "service", before: .patience)
        let count = Scale.count(600, long: 100_000)
        let client = Child([Child.folder + "/XPCTestHelper", "growth", "\(count)"], environment: variables)
        #expect(client.wait(before: Scale.isLong ? .now + .seconds(3000) : .patience) == 0)
        service.kill()
    }
}
