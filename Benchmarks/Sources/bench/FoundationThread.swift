import Dispatch
import Foundation
import FoundationPorts
import Ports

/// A thread that runs Foundation's loop.
final class FoundationThread: PortHost {
    // Sound: any thread may add a port or a block to a RunLoop.
    private nonisolated(unsafe) let loop: RunLoop

    init() throws {
        nonisolated(unsafe) var loop = RunLoop.main
        let isReady = DispatchSemaphore(value: 0)
        try PlainThread.start {
            loop = .current
            // Keeps the mode from being empty. As long as the program: a benchmark makes two.
            loop.add(NSMachPort(), forMode: .default)
            isReady.signal()
            loop.run()
        }
        isReady.wait()
        self.loop = loop
    }

    func execute(_ work: @escaping @Sendable () -> Void) {
        loop.perform(work)
        CFRunLoopWakeUp(loop.getCFRunLoop())
    }

    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) throws {
        port.setHandler(handler)
        try port.schedule(in: loop, forMode: .default)
    }
}
