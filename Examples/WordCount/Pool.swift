import Glibc
import Ports
import RunLoops

/// The workers, and the files they are to count: whoever is free is handed the next file. Lives on the main thread,
/// whose loop tells it of results, of workers that come and of workers that go.
@MainActor
final class Pool {
    enum Kind {
        case threads
        case processes
    }

    /// One worker, from its start to its end.
    @MainActor
    private final class Member {
        var port: MachPort.SendRight?
        var process: WorkerProcess?
        var thread: WorkerThread?
        /// The index of the file it is counting.
        var file: Int?
    }

    private let kind: Kind
    private let size: Int
    private let loop = ThreadRunLoop.main
    private let files: [FileTree.File]
    private var results: MachPort?

    private var members: [Member] = []
    /// The indices of the files that nobody has been handed yet, the next one last.
    private var waiting: [Int]
    private var isCounted: [Bool]
    private var replacements = 0

    private(set) var report: Report
    private(set) var filesDone = 0
    /// Why the run cannot go on.
    private(set) var failure: String?
    /// The signal that ends the run.
    private(set) var signal: Int32?

    /// Whether there is something left to wait for.
    var isRunning: Bool { filesDone < files.count && failure == nil && signal == nil }

    var workersAlive: Int { members.count { $0.port != nil } }
    var fileCount: Int { files.count }

    init(_ kind: Kind, size: Int, _ tree: FileTree) {
        self.kind = kind
        self.size = size
        files = tree.files
        waiting = Array(tree.files.indices.reversed())
        isCounted = Array(repeating: false, count: tree.files.count)
        report = Report(on: tree)
    }

    /// Launches the workers. From here on, the loop does the rest; it is stopped when all files are done.
    func start() throws {
        guard !files.isEmpty else { return }
        let results = try MachPort { message in MainActor.assumeIsolated { self.received(message) } }
        self.results = results
        try results.schedule(in: loop)
        for _ in 0..<min(size, files.count) { try launch() }
    }

    private func launch() throws {
        guard let results else { return }
        let member = Member()
        members.append(member)
        switch kind {
        case .threads:
            let worker = try WorkerThread.start(name: "worker \(members.count)", port: results.sendRight) {
                try Worker.serve($0)
            }
            member.thread = worker
            onMain(worker.onCheckIn) { self.checkedIn(member, $0) }
        case .processes:
            let worker = try WorkerProcess.start(.init(Self.executable, ["--worker"]), port: results.sendRight)
            member.process = worker
            onMain(worker.onCheckIn) { self.checkedIn(member, $0) }
            onMain(worker.onExit) { self.ended(member, worker.pid, $0) }
            // A worker that is alive and says nothing would keep us waiting for ever.
            let limit = ThreadRunLoop.Timer(after: .seconds(30)) { _ in
                MainActor.assumeIsolated {
                    if member.port == nil, worker.status == nil { worker.send(signal: SIGKILL) }
                }
            }
            try loop.add(limit)
        }
    }

    /// Has the main loop call a handler with what the library's thread was told.
    private func onMain<Value: Sendable>(
        _ register: (@escaping @Sendable (Value) -> Void) -> Void, _ handler: @escaping @MainActor (Value) -> Void
    ) {
        register { value in
            try? ThreadRunLoop.main.perform { MainActor.assumeIsolated { handler(value) } }
        }
    }

    /// The path of this program; the kernel's own link to it when the file has been replaced meanwhile.
    private static var executable: String {
        let path = [UInt8](unsafeUninitializedCapacity: Int(PATH_MAX)) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) { path in
                path.baseAddress.map { max(readlink("/proc/self/exe", $0, path.count), 0) } ?? 0
            }
        }
        let name = String(decoding: path, as: UTF8.self)
        return access(name, X_OK) == 0 ? name : "/proc/self/exe"
    }

    // MARK: What the loop tells

    private func checkedIn(_ member: Member, _ outcome: Result<MachPort.SendRight, CheckInError>) {
        switch outcome {
        case .success(let port):
            member.port = port
            handOut(to: member)
        // The end of a process is told by itself.
        case .failure(.died): break
        case .failure(let error): fail("\(error)")
        }
    }

    private func received(_ message: MachPort.Message) {
        guard message.id == Wire.counted, let index = Wire.index(in: message), isCounted.indices.contains(index),
            let outcome = Wire.outcome(in: message)
        else { return }
        // A worker that was killed may have sent its result first; then another has counted the file as well.
        if !isCounted[index] {
            isCounted[index] = true
            filesDone += 1
            switch outcome {
            case .success(let counts): report.add(counts, ofFile: files[index].path)
            case .failure(let reason): report.add(FileError(path: files[index].path, reason: reason))
            }
        }
        if filesDone == files.count { return loop.stop() }
        if let member = members.first(where: { $0.port == message.replyPort && $0.port != nil }) {
            member.file = nil
            handOut(to: member)
        }
    }

    private func handOut(to member: Member) {
        while let index = waiting.popLast() {
            if isCounted[index] { continue }
            do {
                member.file = index
                try member.port?.send(Wire.task(index, files[index].path), before: .now + .seconds(1))
            } catch {
                // Its end will be told, and its file goes to another then.
            }
            return
        }
    }

    private func ended(_ member: Member, _ pid: pid_t, _ status: ThreadRunLoop.ExitStatus) {
        guard isRunning else { return }
        let hadCheckedIn = member.port != nil
        members.removeAll { $0 === member }
        if let index = member.file, !isCounted[index] { waiting.append(index) }
        let what = hadCheckedIn ? "worker \(pid) \(status)" : "worker \(pid) \(status) before it checked in"
        guard replacements < 3 * size else {
            return fail("\(what), and \(replacements) have been replaced already: giving up")
        }
        replacements += 1
        Progress.note("\(what); another takes its place")
        // Somebody may have nothing to do while the new one starts.
        if let idle = members.first(where: { $0.port != nil && $0.file == nil }) { handOut(to: idle) }
        do {
            try launch()
        } catch {
            fail("\(error)")
        }
    }

    /// A signal has come: the run ends.
    func interrupt(by signal: Int32) {
        self.signal = self.signal ?? signal
        loop.stop()
    }

    private func fail(_ reason: String) {
        failure = failure ?? reason
        loop.stop()
    }

    // MARK: The end

    /// Ends all workers, and returns when they are gone.
    ///
    /// - Parameter isDone: Whether they may end by themselves; otherwise they are ended in the middle of their work.
    func end(isDone: Bool) {
        for member in members where isDone { try? member.port?.send(MachPort.Message(id: Wire.end), before: .now) }
        let patience = ContinuousClock.now + .seconds(isDone ? 2 : 0)
        for member in members {
            if let process = member.process, process.waitForExit(before: patience) == nil {
                process.send(signal: SIGKILL)
                _ = process.waitForExit()
            }
            // A thread in the middle of a file ends with the program.
            member.thread?.thread.stop()
            if isDone { member.thread?.thread.join(before: patience) }
        }
        members = []
        results?.invalidate()
    }
}
