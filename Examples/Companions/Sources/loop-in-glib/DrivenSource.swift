import CGLib
import RunLoops

/// Has GLib's main context of this thread run the thread's loop, until somebody stops the loop.
func attachLoop(to context: OpaquePointer? = nil, atEnd: @escaping () -> Void) throws(RunLoopError) {
    let driver = Driver(try ThreadRunLoop.DrivenRun(), atEnd)
    guard let source = g_source_new(&functions, UInt32(MemoryLayout<GSource>.size)) else { return }
    g_source_add_unix_fd(source, driver.run.descriptor, G_IO_IN)
    // GLib gives the data to the source's dispatch function, too.
    g_source_set_callback(
        source, { _ in 0 }, Unmanaged.passRetained(driver).toOpaque(),
        { data in if let data { Unmanaged<Driver>.fromOpaque(data).release() } })
    driver.source = source
    driver.goOn()
    g_source_attach(source, context)
    g_source_unref(source)
}

private final class Driver {
    let run: ThreadRunLoop.DrivenRun
    private let atEnd: () -> Void
    var source: UnsafeMutablePointer<GSource>?

    init(_ run: ThreadRunLoop.DrivenRun, _ atEnd: @escaping () -> Void) { (self.run, self.atEnd) = (run, atEnd) }

    /// Goes on to the loop's next sleep, or has GLib come back at once.
    func goOn() { g_source_set_ready_time(source, run.prepare() == .zero ? 0 : -1) }

    func dispatch() -> Bool {
        guard run.dispatch() == nil else {
            atEnd()
            return false
        }
        goOn()
        return true
    }
}

// GLib polls the descriptor, and keeps the time, by itself. Sound: nobody writes to the functions.
nonisolated(unsafe) private var functions = GSourceFuncs(
    prepare: nil, check: nil,
    dispatch: { _, _, data in
        guard let data else { return 0 }
        return Unmanaged<Driver>.fromOpaque(data).takeUnretainedValue().dispatch() ? 1 : 0
    }, finalize: nil, closure_callback: nil, closure_marshal: nil)
