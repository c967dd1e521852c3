import Glibc

/// What other processes of the tests need in their environment to be sanitized as this one is, by name.
package let sanitizerOptions = Dictionary(
    uniqueKeysWithValues: (["ASAN_OPTIONS", "TSAN_OPTIONS"] as [String]).compactMap { name in
        getenv(name).map { (name, String(cString: $0)) }
    })

#if THREAD_SANITIZER
    private let isOn = true
#else
    private let isOn = false
#endif

/// Whether the thread sanitizer watches: it has threads, descriptors and a time of its own, and does not get over all that
/// a test does to its process.
package let isThreadSanitized = isOn
