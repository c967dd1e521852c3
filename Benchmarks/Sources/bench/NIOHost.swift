import NIOCore
import NIOPosix
import Ports

/// An actor whose executor is an event loop of SwiftNIO.
final class NIOHost: PortHost {
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let service: Service

    init() { service = Service(group.next()) }

    deinit { group.shutdownGracefully { _ in } }

    func execute(_ work: @escaping @Sendable () -> Void) { service.eventLoop.execute(work) }

    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) {
        Task { [service] in await service.serve(port, handler) }
    }

    private actor Service {
        nonisolated let eventLoop: any EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

        init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

        func serve(_ port: MachPort, _ handler: MachPort.Handler) async {
            for await message in port.messages { handler(message) }
        }
    }
}
