import CoreFoundation
import Dispatch
import Foundation
import Ports
import RunLoops
import Synchronization

/// Says once in the log that nobody runs the main thread's RunLoop, although it has a port. On macOS it runs whenever an
/// async `main` awaits.
enum UnservedMainLoop {
    private static let isWatched = Atomic(false)
    /// A program may do a lot before it runs its loop.
    private static let patience = DispatchTimeInterval.seconds(10)

    /// Notes that a loop has got a port in a mode.
    static func note(_ loop: RunLoop, _ mode: RunLoop.Mode) {
        guard loop === RunLoop.main, let main = CFRunLoopGetMain(), !isWatched.exchange(true, ordering: .relaxed),
            CFRunLoopCopyCurrentMode(main) == nil
        else { return }
        let run = Run()
        let observer = CFRunLoopObserverCreateWithHandler(nil, CFRunLoopActivity.entry.rawValue, false, 0) { _, _ in
            run.hasBegun.store(true, ordering: .relaxed)
        }
        for mode in [mode.cfMode, kCFRunLoopDefaultMode, kCFRunLoopCommonModes] {
            CFRunLoopAddObserver(main, observer, mode)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + patience) {
            guard !run.hasBegun.load(ordering: .relaxed), ThreadRunLoop.main.guest == nil else { return }
            log.warning(
                "RunLoop.main has a port, and nobody runs it: call RunLoop.main.run(), or under `static func main() async` "
                    + "ThreadRunLoop.main.serveFoundation()")
        }
    }

    private final class Run: Sendable {
        let hasBegun = Atomic(false)
    }
}
