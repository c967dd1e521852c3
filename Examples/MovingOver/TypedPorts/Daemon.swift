import Glibc
import RunLoops
import TypedPorts

/// Samples the load average, answers who asks, and tells who subscribes.
actor Daemon {
    private(set) var samples: [Double] = []
    private var subscribers: [AsyncStream<Double>.Continuation] = []

    func sample() {
        var load = 0.0
        getloadavg(&load, 1)
        samples = (samples + [load]).suffix(60)
        subscribers.removeAll { subscriber in
            if case .terminated = subscriber.yield(load) { true } else { false }
        }
    }

    func subscribe() -> AsyncStream<Double> {
        let (stream, continuation) = AsyncStream.makeStream(of: Double.self, bufferingPolicy: .bufferingNewest(60))
        subscribers.append(continuation)
        return stream
    }

    func run(every interval: Duration) async {
        repeat { sample() } while (try? await Task.sleep(for: interval)) != nil
    }
}

func serve(every interval: Duration) async throws {
    let signals = try SignalSequence([SIGTERM])
    defer { withExtendedLifetime(signals) {} }
    let (daemon, server) = (Daemon(), try RequestServer(name: serviceName))
    server.handle(Latest.self) { _ in await daemon.samples.last }
    server.handle(Samples.self) { _ in await daemon.subscribe() }
    let sampling = Task { await daemon.run(every: interval) }
    async let serving: Void = server.run()
    _ = try await signals.wait()
    sampling.cancel()
    await server.finish(timeout: .seconds(1))
    try await serving
}
