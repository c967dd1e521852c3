import SimulatedCalls

/// A thread of a simulated process.
final class Thread {
    struct Wait {
        let deadline: UInt64?
        let files: [OpenFile]?
        let isReady: () -> Bool
        /// The time at which one of the files may become ready by itself.
        fileprivate(set) var alarm = UInt64.max
    }

    let process: Process
    let number: Int
    var name: String
    let carrier: Carrier
    /// Nil for a thread that can go on.
    private(set) var wait: Wait?
    /// Whether something has changed since the thread was found not ready.
    var mayBeReady = false
    var hasEnded = false
    private(set) var result: UnsafeMutableRawPointer?

    init(_ process: Process, number: Int, name: String, _ carrier: Carrier) {
        (self.process, self.number, self.name, self.carrier) = (process, number, name, carrier)
    }

    func start(_ body: @escaping () -> UnsafeMutableRawPointer?) {
        carrier.carry { [self] in result = body() }
    }

    var mayRun: Bool { !hasEnded && !process.isStopped }

    /// - Parameter files: The files that it waits for; nil when anything may make it ready.
    func beginWait(until deadline: UInt64?, for files: [OpenFile]?, _ isReady: @escaping () -> Bool) {
        wait = Wait(deadline: deadline, files: files, isReady: isReady)
        for file in files ?? [] { file.waiters.append(self) }
        mayBeReady = true
    }

    func endWait() {
        for file in wait?.files ?? [] { file.waiters.removeAll { $0 === self } }
        wait = nil
    }

    func isReady(at now: UInt64) -> Bool {
        guard let wait else { return true }
        if let deadline = wait.deadline, deadline <= now { return true }
        guard mayBeReady || wait.files == nil || wait.alarm <= now else { return false }
        if wait.isReady() { return true }
        mayBeReady = false
        self.wait?.alarm = wait.files.map(Self.soonest) ?? .max
        return false
    }

    private static func soonest(_ files: [OpenFile]) -> UInt64 { files.reduce(.max) { min($0, $1.alarm ?? .max) } }

    /// The next time at which a waiting thread may be ready.
    var nextTime: UInt64 { min(wait?.deadline ?? .max, wait?.alarm ?? .max) }
}

/// A real thread, which runs only while it has the baton. It never ends, because what the C library does at the end of a
/// thread would happen beside the threads of the machine. So simulated threads follow one another on it.
final class Carrier {
    /// The kernel's number of the thread.
    let number: Int32
    private let baton = simulated_baton_make()
    private var body: () -> Void = {}
    private var isStarted: Bool

    /// - Parameter isStarted: True for the calling thread.
    init(number: Int32, isStarted: Bool = false) { (self.number, self.isStarted) = (number, isStarted) }

    func give() { simulated_baton_give(baton) }
    func await() { simulated_baton_await(baton) }

    /// Lets the body be the thread's next work.
    func carry(_ body: @escaping () -> Void) {
        self.body = body
        guard !isStarted else { return }
        isStarted = simulated_start_thread(
            baton,
            { argument in
                guard let argument else { return }
                let carrier = Unmanaged<Carrier>.fromOpaque(argument).takeUnretainedValue()
                while true {
                    carrier.body()
                    carrier.body = {}
                    machine.endThread()
                }
            }, Unmanaged.passRetained(self).toOpaque())
        if !isStarted { machine.fail("no more threads can be started") }
    }
}
