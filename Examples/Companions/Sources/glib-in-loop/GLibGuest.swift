import CGLib
import RunLoops

/// Has GLib's main context served while a loop sleeps. Call it on the loop's thread.
func serveGLib(in loop: ThreadRunLoop, _ context: OpaquePointer = g_main_context_default()) {
    // Sound: GLib's contexts are for any thread.
    nonisolated(unsafe) let context = context
    loop.guest = { turn in
        // One round of the context, as g_main_context_iteration makes it, with one descriptor more.
        guard g_main_context_acquire(context) != 0 else { return false }
        defer { g_main_context_release(context) }
        var (priority, timeout): (gint, gint) = (0, -1)
        g_main_context_prepare(context, &priority)
        var polled = [GPollFD](repeating: GPollFD(), count: 8)
        var count = Int(g_main_context_query(context, priority, &timeout, &polled, gint(polled.count)))
        while count > polled.count {
            polled = [GPollFD](repeating: GPollFD(), count: count)
            count = Int(g_main_context_query(context, priority, &timeout, &polled, gint(polled.count)))
        }
        polled = polled.prefix(count) + [GPollFD(fd: turn.descriptor, events: gushort(G_IO_IN.rawValue), revents: 0)]
        g_poll(&polled, guint(polled.count), min(wait(until: turn.deadline), UInt32(bitPattern: timeout)).asTimeout)
        guard g_main_context_check(context, priority, &polled, gint(count)) != 0 else { return false }
        g_main_context_dispatch(context)
        return true
    }
}

/// Milliseconds, rounded up; the greatest number stands for ever.
private func wait(until deadline: ContinuousClock.Instant?) -> UInt32 {
    guard let deadline else { return .max }
    let left = deadline - .now
    return UInt32(clamping: max(0, Int((left + .microseconds(999)) / .milliseconds(1))))
}

extension UInt32 {
    fileprivate var asTimeout: gint { self == .max ? -1 : gint(clamping: self) }
}
