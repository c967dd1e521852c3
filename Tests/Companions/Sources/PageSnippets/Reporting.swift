import PortsMetrics

/// Runs beside the rest of the program, after MetricsSystem.bootstrap(…), until its task is cancelled.
func reportMetrics() async {
    await PortMetricsReporter(every: .seconds(10)).run()
}
