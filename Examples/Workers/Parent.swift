import Glibc
import TypedPorts

/// A worker process, which is started when there is something to do, and again after its end.
actor Worker {
    private var launched: Task<WorkerProcess, any Error>?

    /// Asks the worker, and after its end the next one, up to three times: a request may end each worker that gets it. A
    /// second attempt does no harm here, because counting changes nothing. A request that changes something is not sent
    /// again after becameInvalid, unless the worker finds out that it was handled.
    func countPrimes(below limit: Int) async throws -> Int {
        for _ in 1...2 {
            let process = try await process()
            do {
                return try await ask(process, below: limit)
            } catch PortError.isInvalid, PortError.becameInvalid, PortError.refused {
                _ = try await process.waitForExit(before: .now + .seconds(10))
            }
        }
        return try await ask(process(), below: limit)
    }

    private func ask(_ process: WorkerProcess, below limit: Int) async throws -> Int {
        try await process.client().request(CountPrimes(below: limit), timeout: .seconds(60))
    }

    /// The process; starts one if none runs.
    func process() async throws -> WorkerProcess {
        while let launched {
            if let process = try? await launched.value, process.status == nil { return process }
            // Another caller may have started the next process meanwhile.
            if self.launched == launched { self.launched = nil }
        }
        // A task, so that callers who come meanwhile wait for the same process.
        let launch = Task { try await WorkerProcess.launch(.init("/proc/self/exe", ["worker"])) }
        launched = launch
        return try await launch.value
    }

    /// Ends the worker after the requests that it has taken.
    func end() async throws {
        guard let ending = launched, let process = try? await ending.value else { return }
        if launched == ending { launched = nil }
        process.send(signal: SIGTERM)
        if try await process.waitForExit(before: .now + .seconds(10)) == nil { process.send(signal: SIGKILL) }
        _ = try await process.waitForExit()
    }
}
