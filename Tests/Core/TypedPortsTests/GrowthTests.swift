import OwnThread
import TestSupport
import Testing
import TypedPorts

/// The heap after many requests and streams: a hundred thousand in the long form.
@Suite(.ownThread) struct GrowthTests {
    private let folder = TemporaryFolder()

    @Test(.timeLimit(.minutes(60)))
    func `neither a server nor its client grows with the requests that have ended`() throws {
        let variables = [
            "PORTS_DIRECTORY": folder.path,
            // The caches of malloc's threads would count as used.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        ].merging(Scale.isLong ? ["SOAK": "1"] : [:]) { $1 }
        let server = Child([Child.folder + "/TypedPortsTestHelper"], environment: variables)
        let names = PortNameServer(directory: folder.path)
        _ = try names.waitForPort(forName: "blocks", before: .patience)
        let count = Scale.count(1500, long: 100_000)
        let client = Child([Child.folder + "/TypedPortsTestHelper", "growth", "\(count)"], environment: variables)
        #expect(client.wait(before: Scale.isLong ? .now + .seconds(3000) : .patience) == 0)
        server.kill()
    }
}
