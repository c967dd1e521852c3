import Glibc
import RunLoops

@testable import Ports

/// A thread that runs a body, and what came of it.
struct Helper<Result: Sendable>: Sendable {
    private final class Outcome: Sendable {
        let result = Lock<Result?>(nil)
        let ended = Gate()
    }

    private let outcome = Outcome()

    init(_ body: @escaping @Sendable () -> Result) {
        let outcome = outcome
        let start = Start {
            let value = body()
            outcome.result.withLock { $0 = value }
            outcome.ended.open()
        }
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(start).toOpaque())
        precondition(error == 0, "no thread")
        pthread_detach(thread)
    }

    /// What the body has returned; nil when it has not ended in time.
    func value(before deadline: MonotonicInstant = .patience) -> Result? {
        outcome.ended.wait(until: deadline) ? outcome.result.withLock { $0 } : nil
    }

    /// The same for a task, which must not block its thread.
    func ended() async -> Result? {
        await waitUntil { outcome.ended.wait(until: .distantPast) } ? outcome.result.withLock { $0 } : nil
    }
}

private final class Start: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// A value that several threads, or several closures, use.
final class Shared<Value: Sendable>: Sendable {
    private let value: Lock<Value>

    init(_ value: Value) { self.value = Lock(value) }

    @discardableResult
    func withLock<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
        value.withLock { value in body(&value) }
    }
}

extension MonotonicInstant {
    /// Far enough for whatever has to happen on a busy machine, where a task may have to wait for all tests that block
    /// its thread.
    static var patience: MonotonicInstant { .now + .seconds(60) }
}

/// Looks again and again, in small steps, for what nothing tells of.
func waitUntil(_ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = MonotonicInstant.patience
    while try !condition() {
        if deadline.hasPassed { return false }
        usleep(200)
    }
    return true
}

/// The same for a task, which must not block its thread.
func waitUntil(_ condition: () -> Bool) async -> Bool {
    let deadline = MonotonicInstant.patience
    while !condition() {
        if deadline.hasPassed { return false }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return true
}

/// The port error that a body throws; nil when it throws none.
func portError(_ body: () throws -> Void) -> PortError? {
    do {
        try body()
        return nil
    } catch {
        return error as? PortError
    }
}

/// What a port error is called, without its details.
func kind(_ error: PortError?) -> String {
    error.map { String("\(Mirror(reflecting: $0).children.first?.label ?? "\($0)")") } ?? "none"
}

/// The kind of error that a body throws.
func errorKind(_ body: () throws -> Void) -> String { kind(portError(body)) }

extension MachPort.Message {
    /// The bytes of the first component.
    var bytes: [UInt8]? { withBytes { $0.withUnsafeBytes { Array($0) } } }
}

/// A thread whose loop serves a port.
func served(_ port: MachPort) throws -> RunLoopThread {
    let thread = try RunLoopThread()
    try port.schedule(in: thread.loop)
    return thread
}
