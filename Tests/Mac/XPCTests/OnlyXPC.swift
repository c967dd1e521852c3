import XPC

// On macOS, a file with this import alone has the names of Dispatch and of the C library, too.

/// A queue for handlers.
func handlerQueue(_ name: String) -> DispatchQueue { DispatchQueue(label: "\(name) \(getpid())") }

/// Ends a program as services for macOS do.
func serveForEver() -> Never { dispatchMain() }

/// A file's own form of sending in tasks.
extension XPCSession {
    func send<Message: Encodable, Reply: Decodable & Sendable>(_ message: Message) async throws -> Reply {
        try await withCheckedThrowingContinuation { continuation in
            do {
                try send(message) { continuation.resume(with: $0) }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }
}
