import Glibc
import TypedPorts

/// A worker process, which is started when there is something to do, and again after its end.
actor Worker {
    private var launched: Task<WorkerProcess, any Error>?

    /// Asks the worker. A second attempt does no harm, because counting changes nothing. A request that changes something
    /// is not tried again after becameInvalid, unless the worker finds out that it was handled.
    func countPrimes(below limit: Int) async throws -> Int {
        for _ in 1...2 {
            do {
                return try await client().request(CountPrimes(below: limit), timeout: .seconds(60))
            } catch PortError.isInvalid, PortError.becameInvalid, PortError.refused {
                // The worker has ended.
                launched = nil
            }
        }
        // A request that ends its worker twice would end the next one, too.
        return try await client().request(CountPrimes(below: limit), timeout: .seconds(60))
    }

    /// The process; starts one if none runs.
    func process() async throws -> WorkerProcess {
        if let launched, let process = try? await launched.value, process.status == nil { return process }
        // A task, so that callers who come meanwhile wait for the same process.
        let launch = Task { try await WorkerProcess.launch(.init("/proc/self/exe", ["worker"])) }
        launched = launch
        return try await launch.value
    }

    private func client() async throws -> RequestClient { try await process().client() }

    /// Ends the worker after the requests that it has taken.
    func end() async throws {
        guard let process = try? await launched?.value else { return }
        launched = nil
        process.send(signal: SIGTERM)
        if try await process.waitForExit(before: .now + .seconds(10)) == nil { process.send(signal: SIGKILL) }
        _ = try await process.waitForExit()
    }
}
