import RunLoops

// As in RunLoops.
#if THREAD_SANITIZER
    typealias Mutex<Value: ~Copyable> = Lock<Value>
#endif
