import Glibc

extension RunLoopThread {
    private final class Start: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Starts a thread without a loop. The caller joins or detaches it.
    package static func startThread(
        stackSize: Int? = nil, _ body: @escaping @Sendable () -> Void
    ) throws(RunLoopError) -> pthread_t {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackSize {
            guard stackSize >= minimumStackSize, pthread_attr_setstacksize(&attributes, stackSize) == 0 else {
                throw .invalidStackSize(stackSize, minimum: minimumStackSize)
            }
        }
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(Start(body))
        let error = pthread_create(
            &thread, &attributes,
            { argument in
                if let argument { Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().body() }
                return nil
            }, argument.toOpaque())
        guard error == 0 else {
            argument.release()
            // The kernel reports "too many threads" and "too little memory" with the same code.
            if let stackSize, !canAllocate(stackSize) { throw .invalidStackSize(stackSize, minimum: minimumStackSize) }
            throw error == EAGAIN ? .threadsGone : .system(call: "pthread_create", errno: error)
        }
        return thread
    }

    private static func canAllocate(_ size: Int) -> Bool {
        let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        return memory != MAP_FAILED && munmap(memory, size) == 0
    }
}
