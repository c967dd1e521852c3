import PortsMetrics

/// Runs beside the rest of the program, after MetricsSystem.bootstrap(…), until its task is cancelled.
func reportMetrics() async throws {
    try await PortMetricsReporter(every: .seconds(10)).run()
}
