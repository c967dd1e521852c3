import SimulatedCalls

/// A thread of a simulated process.
final class Thread {
    let process: Process
    let number: Int
    var name: String
    let carrier: Carrier
    /// Whether the thread waits. The rest is looked at often, and so is not an optional value of its own.
    private(set) var isWaiting = false
    private var deadline = UInt64.max
    /// The files that it waits for; nil when anything may make it ready.
    private var files: [OpenFile]?
    private var becomesReady: () -> Bool = { true }
    /// The time at which one of the files may become ready by itself.
    private var alarm = UInt64.max
    /// Whether something has changed since the thread was found not ready.
    var mayBeReady = false { didSet { if mayBeReady { lookTime.pointee = 0 } } }
    /// The next time at which the thread may be ready; zero when that is not known.
    let lookTime = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
    var hasEnded = false
    private(set) var result: UnsafeMutableRawPointer?

    init(_ process: Process, number: Int, name: String, _ carrier: Carrier) {
        (self.process, self.number, self.name, self.carrier) = (process, number, name, carrier)
        lookTime.initialize(to: 0)
    }

    deinit { lookTime.deallocate() }

    func start(_ body: @escaping () -> UnsafeMutableRawPointer?) {
        carrier.carry { [self] in result = body() }
    }

    var mayRun: Bool { !hasEnded && !process.isStopped }

    /// - Parameter files: The files that it waits for; nil when anything may make it ready.
    func beginWait(until deadline: UInt64?, for files: [OpenFile]?, _ isReady: @escaping () -> Bool) {
        (isWaiting, self.deadline, self.files, becomesReady) = (true, deadline ?? .max, files, isReady)
        alarm = .max
        for file in files ?? [] { file.waiters.append(self) }
        mayBeReady = true
    }

    func endWait() {
        for file in files ?? [] { file.waiters.removeAll { $0 === self } }
        (isWaiting, files, becomesReady) = (false, nil, { true })
        lookTime.pointee = 0
    }

    func isReady(at now: UInt64) -> Bool {
        if !isWaiting || deadline <= now { return true }
        guard mayBeReady || files == nil || alarm <= now else { return false }
        if becomesReady() { return true }
        mayBeReady = false
        alarm = files.map(Self.soonest) ?? .max
        if files != nil { lookTime.pointee = nextTime }
        return false
    }

    private static func soonest(_ files: [OpenFile]) -> UInt64 { files.reduce(.max) { min($0, $1.alarm ?? .max) } }

    /// The next time at which a waiting thread may be ready.
    var nextTime: UInt64 { min(deadline, alarm) }
}

/// A thread of the C library, which runs only while it has the baton. It never ends, because what the library does at the end
/// of a thread would happen beside the threads of the machine. So simulated threads follow one another on it.
final class Carrier {
    /// The kernel's number of the thread.
    let number: Int32
    private let place = simulated_place_make()
    private var body: () -> Void = {}
    private var isStarted: Bool

    /// - Parameter isStarted: True for the calling thread.
    init(number: Int32, isStarted: Bool = false) { (self.number, self.isStarted) = (number, isStarted) }

    /// Gives the baton of this thread, which calls, to another one.
    func pass(to next: Carrier) { simulated_switch(place, next.place) }

    /// Lets the body be the thread's next work.
    func carry(_ body: @escaping () -> Void) {
        self.body = body
        guard !isStarted else { return }
        isStarted = simulated_start_thread(
            place,
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
