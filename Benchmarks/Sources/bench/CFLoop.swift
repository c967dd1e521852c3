import CoreFoundation
import Glibc
import Synchronization

/// Foundation's own: CFRunLoop.
struct CFLoop: LoopContender {
    private let loop: CFRunLoop
    private let mode: CFString

    init(mode: String) {
        loop = CFRunLoopGetCurrent()
        self.mode = CFStringCreateWithCString(nil, mode, CFStringBuiltInEncodings.UTF8.rawValue)
    }

    func addSource0() { CFRunLoopAddSource(loop, Self.makeSource0(), mode) }

    private static let made = Atomic(0)

    static func makeSource0() -> CFRunLoopSource {
        var context = CFRunLoopSourceContext()
        // Two whose contexts are the same are equal, and a mode takes only one of them.
        context.info = UnsafeMutableRawPointer(bitPattern: made.add(1, ordering: .relaxed).newValue)
        context.perform = { _ in }
        return CFRunLoopSourceCreate(nil, 0, &context)
    }

    func addSource1(_ descriptor: Int32) throws {
        // It waits on the descriptor itself: each source needs one of its own.
        let descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard descriptor >= 0 else { throw BenchError.system("fcntl", errno: errno) }
        var context = CFRunLoopSourceContext1()
        context.version = 1
        context.info = UnsafeMutableRawPointer(bitPattern: Int(descriptor))
        context.getPort = { Int32(Int(bitPattern: $0)) }
        context.perform = { _ in }
        let source = withUnsafeMutablePointer(to: &context) { context in
            context.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) {
                CFRunLoopSourceCreate(nil, 0, $0)
            }
        }
        CFRunLoopAddSource(loop, source, mode)
    }

    func makeTimer(after seconds: Double, counting count: Counter) -> CFRunLoopTimer {
        var context = CFRunLoopTimerContext()
        context.info = Unmanaged.passUnretained(count).toOpaque()
        context.retain = { info in
            guard let info else { return nil }
            return UnsafeRawPointer(Unmanaged<Counter>.fromOpaque(info).retain().toOpaque())
        }
        context.release = { info in
            if let info { Unmanaged<Counter>.fromOpaque(info).release() }
        }
        return CFRunLoopTimerCreate(
            nil, CFAbsoluteTimeGetCurrent() + seconds, 0, 0, 0,
            { _, info in
                if let info { Unmanaged<Counter>.fromOpaque(info).takeUnretainedValue().count += 1 }
            }, &context)
    }

    func add(_ timer: CFRunLoopTimer) { CFRunLoopAddTimer(loop, timer, mode) }
    func invalidate(_ timer: CFRunLoopTimer) { CFRunLoopTimerInvalidate(timer) }
    func pass() { CFRunLoopRunInMode(mode, 0, false) }
    func run(before seconds: Double) { CFRunLoopRunInMode(mode, seconds, true) }
}
