import RunLoops

/// Begins a run of the calling thread's loop; null when there can be none.
@_cdecl("driven_begin")
public func begin() -> UnsafeMutableRawPointer? {
    (try? ThreadRunLoop.DrivenRun()).map { Unmanaged.passRetained($0).toOpaque() }
}

/// What to poll.
@_cdecl("driven_descriptor")
public func descriptor(_ run: UnsafeMutableRawPointer) -> Int32 { of(run).descriptor }

/// A timeout for poll, in milliseconds: 0 or -1, as the descriptor reports timers, too.
@_cdecl("driven_prepare")
public func prepare(_ run: UnsafeMutableRawPointer) -> Int32 { of(run).prepare() == .zero ? 0 : -1 }

/// Whether the run goes on.
@_cdecl("driven_dispatch")
public func dispatch(_ run: UnsafeMutableRawPointer) -> Bool { of(run).dispatch() == nil }

/// Ends the run, and releases it.
@_cdecl("driven_end")
public func end(_ run: UnsafeMutableRawPointer) {
    Unmanaged<ThreadRunLoop.DrivenRun>.fromOpaque(run).takeRetainedValue().stop()
}

private func of(_ run: UnsafeMutableRawPointer) -> ThreadRunLoop.DrivenRun {
    Unmanaged<ThreadRunLoop.DrivenRun>.fromOpaque(run).takeUnretainedValue()
}
