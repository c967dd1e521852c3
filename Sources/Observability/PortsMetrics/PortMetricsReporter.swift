#if Metrics
    import CoreMetrics
    import Ports
    import RunLoopLocks

    /// Reports the counters of a runtime to swift-metrics, again and again.
    ///
    /// The counters exist anyway and are only read: messages pay nothing. <doc:PortsMetrics> has the list of the metrics.
    /// Use one reporter for a runtime, because two would count everything twice. Any thread may call all methods.
    public final class PortMetricsReporter: Sendable {
        private let runtime: PortRuntime
        private let interval: Duration
        private let metrics: Lock<ReportedMetrics>

        private static let intervals = Duration.milliseconds(1) ... .seconds(24 * 60 * 60)

        /// Makes a reporter, which has reported nothing yet.
        /// - Parameters:
        ///   - runtime: The ports and rights of this runtime are counted.
        ///   - interval: The time between two reports of ``run()``: a millisecond to a day. Each report asks the processes
        ///     that send to this one for their counts, in one small message for each port.
        ///   - factory: Where the metrics are made; unless given, the one that `MetricsSystem` has at this moment.
        /// - Throws: `PortError.invalidDuration` for another interval.
        public init(
            runtime: PortRuntime = .shared, every interval: Duration = .seconds(10),
            factory: any MetricsFactory = MetricsSystem.factory
        ) throws(PortError) {
            try PortError.check("every", interval, in: Self.intervals)
            self.runtime = runtime
            self.interval = interval
            metrics = Lock(ReportedMetrics(factory))
        }

        /// Reports at once, and again after each interval, until the task is cancelled; then once more.
        public func run() async {
            repeat { await report() } while (try? await Task.sleep(for: interval)) != nil
            // A task of its own, because a cancelled one does not wait for the senders' answers.
            await Task { await report() }.value
        }

        /// Reports once.
        public func report() async {
            let counters = await runtime.counters()
            metrics.withLock { $0.report(counters) }
        }
    }
#else
    import Ports

    /// Reports the counters of a runtime to swift-metrics: with the package trait “Metrics”.
    @available(*, unavailable, message: "add the trait “Metrics” to the dependency on swift-ports")
    public final class PortMetricsReporter {
        /// Makes a reporter: with the package trait “Metrics”.
        public init(runtime: PortRuntime = .shared, every interval: Duration = .seconds(10), factory: Any? = nil)
            throws(PortError)
        {}

        /// Reports until the task is cancelled, and once more then: with the package trait “Metrics”.
        public func run() async {}

        /// Reports once: with the package trait “Metrics”.
        public func report() async {}
    }
#endif
