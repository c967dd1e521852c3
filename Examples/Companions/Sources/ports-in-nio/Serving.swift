import NIOCore
import Ports

/// Handles requests on the thread of an event loop, between the events of its channels.
actor Service {
    nonisolated let eventLoop: any EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }
    private var count = 0

    init(on eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// Returns when the port is invalid.
    func serve(_ port: LocalMessagePort) async throws {
        for await request in port.requests {
            eventLoop.assertInEventLoop()
            count += 1
            try request.replyRight?.reply(with: request.data?.reversed())
        }
    }
}
