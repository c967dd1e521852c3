import TypedPorts

/// Prints the latest sample, and then so many as they come.
func ask(for count: Int) async throws {
    let daemon = RequestClient(serviceName)
    if let latest = try await daemon.request(Latest(), timeout: .seconds(1)) { print("latest: \(latest)") }
    for try await sample in daemon.stream(Samples()).prefix(count) { print("sample: \(sample)") }
}
