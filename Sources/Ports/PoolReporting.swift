extension PortNameServer {
    /// Mentions a pool in the answers about this process's ports, until the closure that it returns is called.
    /// - Parameter report: Called on a thread of the library, which it must not block.
    package func report(pool report: @escaping @Sendable () -> PortService.Pool) -> @Sendable () -> Void {
        let pools = runtime.inspector.pools
        let number = pools.add(report)
        return { pools.remove(number) }
    }
}
