import Foundation
import FoundationPorts

// A thread that a port keeps alive, as many programs have it.

/// The thread.
public final class KeptThread: Thread {
    private let port = NSMachPort()
    private let ready = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    private var loop: RunLoop?

    public override init() {
        super.init()
        start()
        ready.wait()
    }

    public override func main() {
        let runLoop = RunLoop.current
        loop = runLoop
        runLoop.add(port, forMode: .default)
        runLoop.add(Timer(timeInterval: 0, repeats: false) { [ready] _ in ready.signal() }, forMode: .default)
        while port.isValid, runLoop.run(mode: .default, before: .distantFuture) {}
        ended.signal()
    }

    /// Whether the block was called on the thread, and the thread then ended.
    public func calls(_ block: @escaping @Sendable () -> Void) -> Bool {
        let done = DispatchSemaphore(value: 0)
        loop?.perform(inModes: [.default]) {
            block()
            done.signal()
        }
        if let loop { CFRunLoopWakeUp(loop.getCFRunLoop()) }
        let isDone = done.wait(timeout: .now() + 60) == .success
        let token = NotificationCenter.default.addObserver(
            forName: Port.didBecomeInvalidNotification, object: port, queue: nil
        ) { [ended] _ in ended.signal() }
        defer { NotificationCenter.default.removeObserver(token) }
        port.invalidate()
        if let loop { CFRunLoopWakeUp(loop.getCFRunLoop()) }
        return isDone && ended.wait(timeout: .now() + 60) == .success && ended.wait(timeout: .now() + 60) == .success
    }
}
