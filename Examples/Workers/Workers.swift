import Glibc
import TypedPorts

/// Run without arguments, a parent with one worker; with `worker`, that worker.
@main struct Workers {
    static func main() async throws {
        if CommandLine.arguments.dropFirst().first == "worker" { return try await work() }
        let worker = Worker()
        print("The worker has counted \(try await worker.countPrimes(below: 10_000)) primes below 10,000.")
        let first = try await worker.process()
        first.send(signal: SIGKILL)
        if let status = try await first.waitForExit() { print("The worker \(status).") }
        print("Another has counted \(try await worker.countPrimes(below: 1000)) primes below 1,000.")
        let second = try await worker.process()
        try await worker.end()
        if let status = second.status { print("It \(status).") }
    }
}
