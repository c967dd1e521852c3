#if THREAD_SANITIZER
    import RunLoopLocks

    // The thread sanitizer does not see the synchronization of the standard library's lock; it does see ours.
    typealias Mutex<Value: ~Copyable> = Lock<Value>
#endif
