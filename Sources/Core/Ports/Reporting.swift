extension PortNameServer {
    /// Mentions a pool in the answers about this process's ports, and in its counters, until the closure that it returns is
    /// called. The counters keep what the pools of 256 names have done until then.
    /// - Parameter report: Called on any thread, which it must not block.
    package func report(pool report: @escaping @Sendable () -> PoolReport) -> @Sendable () -> Void {
        let pools = runtime.inspector.pools
        let number = pools.add(report)
        return { pools.remove(number) }
    }

    /// Mentions services by name in the counters of this process, until the closure that it returns is called.
    /// - Parameter report: As for a pool.
    package func report(
        services report: @escaping @Sendable () -> [String: PortCounters.Service]
    ) -> @Sendable () -> Void {
        let services = runtime.inspector.services
        let number = services.add(report)
        return { services.remove(number) }
    }
}
