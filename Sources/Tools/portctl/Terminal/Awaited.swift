import RunLoops

/// Waits for an asynchronous call, and returns or throws its outcome.
func awaited<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
    let outcome = OneShot<Result<Value, any Error>>()
    Task.detached {
        do { outcome.set(.success(try await body())) } catch { outcome.set(.failure(error)) }
    }
    return try outcome.block().get()
}
