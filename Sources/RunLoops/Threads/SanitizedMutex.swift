// The thread sanitizer does not see what the standard library's lock puts in order; it does see ours.
#if THREAD_SANITIZER
    typealias Mutex<Value: ~Copyable> = Lock<Value>
#endif
