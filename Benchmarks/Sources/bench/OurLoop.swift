import RunLoops

/// `ThreadRunLoop`.
struct OurLoop: LoopContender {
    private let loop: ThreadRunLoop
    private let mode: ThreadRunLoop.Mode

    init(mode: String) {
        loop = .current
        self.mode = .init(mode)
    }

    func addSource0() { _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: mode) }

    func addSource1(_ descriptor: Int32) throws {
        try loop.add(ThreadRunLoop.Source1(descriptor: descriptor) { _ in true }, forMode: mode)
    }

    func makeTimer(after seconds: Double, counting count: Counter) -> ThreadRunLoop.Timer {
        ThreadRunLoop.Timer(after: .seconds(seconds)) { _ in count.count += 1 }
    }

    func add(_ timer: ThreadRunLoop.Timer) { _ = try? loop.add(timer, forMode: mode) }
    func invalidate(_ timer: ThreadRunLoop.Timer) { timer.invalidate() }
    func pass() throws { try loop.runInMode(mode, seconds: 0) }
    func run(before seconds: Double) throws { try loop.run(mode: mode, before: .now + .seconds(seconds)) }
}
