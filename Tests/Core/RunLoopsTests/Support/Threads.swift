import Glibc
import RunLoopLocks
import RunLoops
import TestSupport

/// Keeps the processor until a time has come, as a busy callout does.
func spin(milliseconds: Int64) {
    let end = MonotonicInstant.now + .milliseconds(milliseconds)
    while !end.hasPassed {}
}

/// Runs a loop where no error can be thrown.
@discardableResult
func run(
    _ loop: ThreadRunLoop, _ mode: ThreadRunLoop.Mode = .default, seconds: Double, returning: Bool = false
) -> ThreadRunLoop.RunResult {
    do {
        return try loop.runInMode(mode, seconds: seconds, returnAfterSourceHandled: returning)
    } catch {
        preconditionFailure("\(error)")
    }
}

/// Makes something where no error can be thrown.
func made<Value>(_ make: () throws -> Value) -> Value {
    do { return try make() } catch { preconditionFailure("\(error)") }
}

/// Adds a source where no error can be thrown.
func add(_ source: ThreadRunLoop.Source1, to loop: ThreadRunLoop, _ mode: ThreadRunLoop.Mode = .default) {
    do { try loop.add(source, forMode: mode) } catch { preconditionFailure("\(error)") }
}

/// The two ends of a pipe, in a place where they are closed in the end.
final class Pipe: Sendable {
    private let ends: Lock<(Int32, Int32)>

    init() {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0, "no pipe")
        for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
        self.ends = Lock((ends[0], ends[1]))
    }

    deinit {
        closeReader()
        closeWriter()
    }

    var reader: Int32 { ends.withLock { $0.0 } }
    var writer: Int32 { ends.withLock { $0.1 } }

    func write(_ count: Int = 1) {
        let bytes = [UInt8](repeating: 7, count: count)
        _ = Glibc.write(writer, bytes, count)
    }

    @discardableResult
    func read(_ count: Int = 1) -> Int {
        var bytes = [UInt8](repeating: 0, count: count)
        return Glibc.read(reader, &bytes, count)
    }

    func closeReader() {
        ends.withLock { ends in
            if ends.0 >= 0 { close(ends.0) }
            ends.0 = -1
        }
    }

    func closeWriter() {
        ends.withLock { ends in
            guard ends.1 >= 0 else { return }
            close(ends.1)
            ends.1 = -1
            // A child of another test, which has not come to its program yet, may still have the end.
            var polled = pollfd(fd: ends.0, events: 0, revents: 0)
            waitUntil { ends.0 < 0 || poll(&polled, 1, 0) > 0 }
        }
    }
}
