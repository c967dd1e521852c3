import OwnThread
import TestSupport
import Testing

/// The memory of deadlines that are far away.
@Suite(.fewAtATime) struct PoolGrowthTests {
    private let folder = TemporaryFolder()

    @Test func `a wait with a long timeout leaves no memory behind`() async throws {
        let file = folder.path + "/growth"
        let helper = Child(
            ["\(Child.folder)/WorkersTestHelper", "growth", file], environment: ["PORTS_DIRECTORY": folder.path])
        #expect(await waitUntil { bytes(ofFile: file).last == UInt8(ascii: "\n") })
        let growth = try #require(line(in: file)).split(separator: " ").compactMap { Int($0) }
        // In bytes. A job that waits for its time has several hundred.
        #expect(growth.count == 2 && growth.allSatisfy { $0 < 200 }, "\(growth)")
        #expect(helper.wait() == 0)
    }
}
