import ArgumentParser
import RunLoops

/// Waits for an asynchronous call, and returns or throws its outcome.
func awaited<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
    let outcome = Outcome<Value>()
    Task.detached {
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        outcome.set(result)
    }
    return try outcome.wait().get()
}

private final class Outcome<Value: Sendable>: @unchecked Sendable {
    // Sound: the latch is opened after the only write, and waited for before the read.
    private var result: Result<Value, any Error>?
    private let latch = Latch()

    func set(_ result: Result<Value, any Error>) {
        self.result = result
        latch.open()
    }

    func wait() -> Result<Value, any Error> {
        _ = latch.wait(until: .distantFuture)
        return result ?? .failure(ExitCode(1))
    }
}
