import Foundation
import RunLoops
import TypedPorts

/// The daemon's state, which outlives it in a file.
actor Tally {
    /// What the file has.
    private struct State: Codable {
        var counts: [String: Int] = [:]
        /// The number of each voter's latest vote.
        var latest: [String: Int] = [:]
    }

    private var state: State
    private var watchers: [AsyncStream<[String: Int]>.Continuation] = []
    private var isEnding = false
    private let file: URL

    /// Goes on with the counts of a file, if it is there.
    init(file: URL) throws {
        self.file = file
        let isThere = FileManager.default.fileExists(atPath: file.path)
        state = isThere ? try JSONDecoder().decode(State.self, from: Data(contentsOf: file)) : State()
    }

    func count(_ vote: Vote) throws(Vote.Failure) -> Int {
        guard !vote.choice.isEmpty else { throw .emptyChoice }
        if state.latest[vote.voter, default: -1] < vote.number {
            state.latest[vote.voter] = vote.number
            state.counts[vote.choice, default: 0] += 1
            watchers.removeAll { if case .terminated = $0.yield(state.counts) { true } else { false } }
        }
        return state.counts[vote.choice, default: 0]
    }

    func watch() -> AsyncStream<[String: Int]> {
        let (stream, watcher) = AsyncStream.makeStream(of: [String: Int].self, bufferingPolicy: .bufferingNewest(1))
        watcher.yield(state.counts)
        if isEnding { watcher.finish() } else { watchers.append(watcher) }
        return stream
    }

    /// Ends the streams, which would last for ever, and those of clients that ask again before the name is given up.
    func endStreams() {
        isEnding = true
        for watcher in watchers { watcher.finish() }
        watchers = []
    }

    func save() throws { try JSONEncoder().encode(state).write(to: file, options: .atomic) }
}

/// Serves until SIGTERM or SIGINT, and saves the votes on the way out.
func serve(_ file: URL) async throws {
    // First: until the sequence is made, SIGTERM ends the process at once.
    let signals = try SignalSequence([SIGTERM, SIGINT])
    defer { withExtendedLifetime(signals) {} }
    let tally = try Tally(file: file)

    // Another daemon that is alive has the name: this throws. Clients that wait for the name ask from here on.
    let server = try RequestServer(name: serviceName)
    server.handle(Vote.self) { vote in try await tally.count(vote) }
    server.handle(Counts.self) { _ in await tally.watch() }
    async let serving: Void = server.run()

    _ = try await signals.wait()
    await tally.endStreams()
    // The name is given up, further requests are refused, which makes their clients look for the next daemon, and those
    // that were taken are answered. After this no vote can come, so that the file has them all.
    let areAllAnswered = await server.finish(timeout: .seconds(10))
    try await tally.save()
    // A handler that does not return must not keep the daemon.
    if !areAllAnswered { exit(1) }
    try await serving
}
