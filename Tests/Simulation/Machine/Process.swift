import Glibc
import SimulatedCalls

/// A simulated process: its descriptors, its memory, its tasks.
final class Process: CustomStringConvertible {
    enum State { case running, exiting, gone }

    static let firstDescriptor = Int32(simulated_first_descriptor)

    let name: String
    let pid: Int32
    /// In clock ticks since boot.
    let startTime: UInt64
    var state = State.running {
        didSet {
            guard state == .gone else { return }
            endTime = machine.now
            for watcher in watchers { watcher.noteChange() }
        }
    }
    /// The pidfds of the process.
    var watchers: [OpenFile] = []
    /// When the last descriptor was closed.
    private(set) var endTime: UInt64?
    /// Whether no inotify instance was refused.
    var hearsFiles = true
    var isStopped = false
    /// The time for which it was stopped, without the present stop.
    var stoppedTime: UInt64 = 0
    /// Whether nobody has disturbed it: no call has failed, no connection was cut, and it was not stopped.
    var isUndisturbed: Bool { failedCalls == 0 && !wasCut && stoppedTime == 0 && !isStopped }
    var failedCalls = 0
    /// Whether calls of the process may fail.
    var mayFail = true
    private(set) var descriptors: [Int32: OpenFile] = [:]
    /// The process that has started it, and has not learned its end.
    weak var parent: Process?
    /// Whether the kernel ends it with its parent.
    var endsWithParent = false
    /// How it has ended: an exit status, or a signal below zero.
    var status: Int32 = 0
    /// Whether it knows what to do when it is asked to end. Another one ends at once.
    var handlesTermination = false
    var isAskedToEnd = false { didSet { work.noteChange() } }
    /// Whether its number is still its own.
    var hasNumber: Bool { state != .gone || parent?.isDead == false }
    /// The most descriptors at a time.
    var limit = 1024
    private let first: Int32
    private var memories: [UnsafeMutableRawPointer: Int] = [:]
    /// The address space, and the largest file, in bytes. The size of rings depends on both.
    var (memoryLimit, fileLimit) = (UInt64.max, UInt64.max)
    private var jobs: [Job] = []
    /// The blocks of a queue of Dispatch, of which one runs at a time. The first may be running.
    private var queues: [UnsafeMutableRawPointer: [UnsafeMutableRawPointer]] = [:]
    private var workers = 0
    private var idleWorkers = 0
    /// Changes with each job.
    private let work = EventFile(0)

    init(name: String, pid: Int32, place: Int, startTime: UInt64) {
        (self.name, self.pid, self.startTime) = (name, pid, startTime)
        first = Self.firstDescriptor + Int32(place) * 10_000
    }

    var description: String { "\(name) \(pid)" }
    var isDead: Bool { state != .running }
    /// Whether it has begun its orderly end, at which its ports end, too.
    var isExiting = false
    /// Whether its program has released the runtime. “To peers, the end of a runtime is the death of a process.”
    var hasReleasedRuntime = false
    /// Whether its ports end, or have ended.
    var isEnding: Bool { isDead || isExiting || hasReleasedRuntime }

    /// Whether a control connection to another process is open.
    func isConnected(to other: Process) -> Bool {
        descriptors.values.contains { file in
            guard let socket = file as? SocketFile, !socket.isStream else { return false }
            return socket.peer != nil && socket.peerPid == other.pid
        }
    }

    // MARK: Descriptors

    /// The number that the next descriptor would get; -EMFILE at the limit.
    var lowestFree: Int32 {
        guard descriptors.count < limit else { return -EMFILE }
        var number = first
        while descriptors[number] != nil { number += 1 }
        return number
    }

    /// One more than the highest number.
    var end: UInt64 { UInt64(first) + UInt64(limit) }

    func add(_ file: OpenFile) -> Int32 {
        let number = lowestFree
        guard number >= 0 else { return number }
        descriptors[number] = file
        file.references += 1
        return number
    }

    func close(_ number: Int32) -> Int32 {
        guard let file = descriptors.removeValue(forKey: number) else { return -EBADF }
        file.release()
        return 0
    }

    /// Ends one of the control connections.
    func cutConnection() {
        let sockets = descriptors.sorted { $0.key < $1.key }.compactMap { $0.value as? SocketFile }
        guard let socket = sockets.filter({ !$0.isStream && $0.isConnected }).randomElement(using: &machine.chance)
        else {
            return
        }
        socket.shutDown()
        wasCut = true
        machine.processes.last { $0.pid == socket.peerPid && $0.state != .gone }?.wasCut = true
    }

    /// Whether one of its control connections was cut.
    private(set) var wasCut = false

    /// A child has all descriptors for a while, as between `fork` and `exec`.
    func fork(for nanoseconds: UInt64) {
        let files = descriptors.sorted { $0.key < $1.key }.map(\.value)
        for file in files { file.references += 1 }
        machine.perform(after: nanoseconds) { for file in files { file.release() } }
    }

    // MARK: Memory

    var mappedCount: Int { memories.count }
    func mapped(_ start: UnsafeMutableRawPointer, _ size: Int) { memories[start] = size }
    func unmapped(_ start: UnsafeMutableRawPointer) -> Bool { memories.removeValue(forKey: start) != nil }
    /// Nobody sees any more what the process's threads might still write.
    func detachMemory() {
        for (start, size) in memories { simulated_memory_detach(start, UInt64(size)) }
        memories = [:]
    }

    // MARK: Tasks and queues

    enum Job {
        case task(UnsafeMutableRawPointer)
        /// A function, and its argument.
        case call(@convention(c) (UnsafeMutableRawPointer?) -> Void, UnsafeMutableRawPointer?)
        /// The first block of a queue.
        case block(of: UnsafeMutableRawPointer)
    }

    func enqueue(_ job: Job) {
        jobs.append(job)
        work.noteChange()
        guard idleWorkers == 0, workers < 2 else { return }
        workers += 1
        machine.makeThread(self, "tasks \(workers)") { [self] in
            repeat { runNextJob() } while !isDead
        }
    }

    func enqueue(_ job: Job, at time: UInt64) {
        guard time > machine.now else { return enqueue(job) }
        machine.perform(after: time - machine.now) { [self] in if !isDead { enqueue(job) } }
    }

    func dispatch(_ block: UnsafeMutableRawPointer, on queue: UnsafeMutableRawPointer, at time: UInt64) {
        if time > machine.now {
            return machine.perform(after: time - machine.now) { [self] in
                if !isDead { dispatch(block, on: queue, at: 0) }
            }
        }
        queues[queue, default: []].append(block)
        if queues[queue]?.count == 1 { enqueue(.block(of: queue)) }
    }

    @inline(never)
    private func runNextJob() {
        idleWorkers += 1
        _ = machine.wait(until: nil, for: [work]) { [self] in !jobs.isEmpty }
        idleWorkers -= 1
        if jobs.isEmpty { return }
        switch jobs.remove(at: machine.chance.below(min(jobs.count, 3))) {
        case .task(let task): simulated_job_run(task)
        case .call(let function, let context): function(context)
        case .block(let queue):
            guard let block = queues[queue]?.first else { return }
            simulated_block_run(block)
            queues[queue]?.removeFirst()
            if queues[queue]?.isEmpty == true { queues[queue] = nil } else { enqueue(.block(of: queue)) }
        }
    }
}
