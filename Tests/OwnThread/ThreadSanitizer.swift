#if THREAD_SANITIZER
    private let isOn = true
#else
    private let isOn = false
#endif

/// Whether the thread sanitizer watches: it has threads, descriptors and a time of its own, and does not get over all that
/// a test does to its process.
public let isThreadSanitized = isOn
