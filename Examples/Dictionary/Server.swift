import Glibc
import RunLoops
import TypedPorts

let dictionary = [
    "loop": "what a thread runs when it waits for several things",
    "port": "where messages arrive",
    "post": "to send without waiting",
    "reply": "what a request gets",
]

/// Answers requests until SIGTERM or SIGINT, and then those that it has taken.
func serve() async throws {
    // First: until the sequence is made, SIGTERM ends the process at once.
    let signals = try SignalSequence([SIGTERM, SIGINT])
    defer { withExtendedLifetime(signals) {} }
    let server = try RequestServer(name: serviceName)
    server.handle(Lookup.self) { lookup in
        try await Task.sleep(for: .milliseconds(lookup.delay))
        guard let meaning = dictionary[lookup.word] else { throw Lookup.Failure.unknownWord(lookup.word) }
        return meaning
    }
    server.handle(Words.self) { words in
        AsyncStream { continuation in
            for word in dictionary.keys.sorted() where word.hasPrefix(words.prefix) { continuation.yield(word) }
            continuation.finish()
        }
    }
    async let running: Void = server.run()
    _ = try await signals.wait()
    // A handler that does not return must not keep the program.
    guard await server.finish(timeout: .seconds(10)) else { exit(1) }
    try await running
}
