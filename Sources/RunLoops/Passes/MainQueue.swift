import CRunLoopShims

extension ThreadRunLoop {
    /// Whether the mode serves libdispatch's main queue: a common mode of the main loop does, outside its callouts.
    func servesMainQueue(_ state: borrowing State, mode: Int) -> Bool {
        isMain && !drainsMainQueue.load(ordering: .relaxed)
            && state.modes[mode].flags.isCommon.load(ordering: .acquiring) && crl_main_queue_descriptor() >= 0
    }

    func drainMainQueue() {
        drainsMainQueue.store(true, ordering: .relaxed)
        calling(Callout(.mainQueue)) { crl_main_queue_drain() }
        drainsMainQueue.store(false, ordering: .relaxed)
        servedMainQueueLast.store(true, ordering: .relaxed)
    }
}

/// One run of the main loop, for an async `main`; false when the loop cannot run.
@_cdecl("crl_run_main_loop")
func runMainLoop() -> Bool { (try? ThreadRunLoop.main.run()) != nil }
