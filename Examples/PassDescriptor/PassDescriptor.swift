import Glibc
import TypedPorts

/// A parent hands the writing end of a pipe to its worker, and reads what the worker writes.
@main struct PassDescriptor {
    static func main() async throws {
        if CommandLine.arguments.contains("worker") { return try await work() }
        let worker = try await WorkerProcess.launch(.init("/proc/self/exe", ["worker"]))
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { fatalError("no descriptor is left") }
        let request = WriteReport(title: "disks", output: MessageDescriptor(owning: ends[1]))
        let written = try await worker.client().request(request, timeout: .seconds(10))
        // The pipe ends when the worker has closed its end, because the request has taken it from this process.
        var bytes = [UInt8](repeating: 0, count: 4096)
        while case let count = read(ends[0], &bytes, bytes.count), count > 0 {
            print(String(decoding: bytes[..<count], as: UTF8.self), terminator: "")
        }
        print("The worker has written \(written) bytes, and has closed the pipe.")
        worker.send(signal: SIGTERM)
        _ = try await worker.waitForExit(before: .now + .seconds(10))
    }
}
