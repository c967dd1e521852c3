import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Settings that a program may read from a file: one out of its range is an error that has the value and the range.
@Suite struct SettingTests {
    let sandbox = Sandbox()

    @Test(arguments: [0, 1023, 2_147_483_648]) func `a reply limit has a range`(_ limit: Int) throws {
        let runtime = PortRuntime(directory: sandbox.path)
        let error = PortError.invalidLimit(name: "replyLimit", value: limit, allowed: 1024...2_147_483_647)
        #expect(throws: error) { try runtime.setReplyLimit(limit) }
        #expect(runtime.replyLimit == 64 << 20)
    }

    @Test(arguments: [0, -1]) func `a server serves one request or more at a time`(_ limit: Int) async throws {
        let server = try LocalMessagePort(nameServer: sandbox.names)
        let error = PortError.invalidLimit(name: "atMost", value: limit, allowed: 1...Int.max)
        await #expect(throws: error) { try await server.serve(atMost: limit) { _ in nil } }
        #expect(server.isValid)
    }

    @Test(arguments: [.seconds(-1), .seconds(61)] as [Duration])
    func `a recording and a look have a longest duration`(_ duration: Duration) async throws {
        let right = try MachPort(nameServer: sandbox.names).sendRight
        await #expect(
            throws: PortError.invalidDuration(name: "duration", value: duration, allowed: .zero ... .seconds(60))
        ) {
            try await right.recordings(for: duration)
        }
        await #expect(
            throws: PortError.invalidDuration(name: "duration", value: duration, allowed: .zero ... .seconds(10))
        ) {
            try await right.info(observing: duration)
        }
        await #expect(throws: PortError.self) { try await sandbox.names.map(observing: duration) }
    }
}
