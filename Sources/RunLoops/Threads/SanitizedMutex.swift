// The thread sanitizer does not see the synchronization of the standard library's lock; it does see ours.
#if THREAD_SANITIZER
    typealias Mutex<Value: ~Copyable> = Lock<Value>
#endif
