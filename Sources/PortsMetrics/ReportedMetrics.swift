#if Metrics
    import CoreMetrics
    import Ports

    /// The metrics, and what they were last told.
    struct ReportedMetrics: Sendable {
        private let factory: any MetricsFactory
        private var sent, received, refused, late, dropped: Total
        private let waiting, peers, ports: Meter
        private var named: [String: NamedPort] = [:]

        init(_ factory: any MetricsFactory) {
            self.factory = factory
            // The names and the dimension are OpenTelemetry's, where it has one for the thing.
            let system = [("messaging.system", "swift-ports")]
            sent = Total("messaging.client.sent.messages", system, factory)
            received = Total("messaging.client.consumed.messages", system, factory)
            refused = Total("ports.requests.refused", [], factory)
            late = Total("ports.replies.late", [], factory)
            dropped = Total("ports.messages.dropped", [], factory)
            waiting = Meter(label: "ports.messages.waiting", factory: factory)
            peers = Meter(label: "ports.peers", factory: factory)
            ports = Meter(label: "ports.count", factory: factory)
        }

        mutating func report(_ counters: PortCounters) {
            sent.advance(to: counters.sent)
            received.advance(to: counters.received)
            refused.advance(to: counters.refused)
            late.advance(to: counters.late)
            dropped.advance(to: counters.dropped)
            waiting.set(counters.waiting)
            peers.set(counters.peers)
            ports.set(counters.ports)
            for (name, port) in named where counters.named[name] == nil {
                port.destroy()
                named[name] = nil
            }
            for (name, counters) in counters.named {
                var port = named[name] ?? NamedPort(name, factory)
                port.report(counters)
                named[name] = port
            }
        }
    }

    /// A counter that follows a count.
    struct Total: Sendable {
        let counter: Counter
        private var last = 0

        init(_ label: String, _ dimensions: [(String, String)], _ factory: any MetricsFactory) {
            counter = Counter(label: label, dimensions: dimensions, factory: factory)
        }

        /// A count that has fallen was read in the middle of a change, and will rise again.
        mutating func advance(to count: Int) {
            guard count > last else { return }
            counter.increment(by: count - last)
            last = count
        }

        mutating func restart() { last = 0 }
    }

    /// The metrics of a port with a name, or of several that have it one after the other.
    private struct NamedPort: Sendable {
        private var id: PortID?
        private var received, dropped: Total
        private let waiting: Meter

        init(_ name: String, _ factory: any MetricsFactory) {
            let destination = [("messaging.destination.name", name)]
            received = Total("ports.named.received", destination, factory)
            dropped = Total("ports.named.dropped", destination, factory)
            waiting = Meter(label: "ports.named.waiting", dimensions: destination, factory: factory)
        }

        mutating func report(_ port: PortCounters.Port) {
            if port.id != id {
                received.restart()
                dropped.restart()
            }
            id = port.id
            received.advance(to: port.received)
            dropped.advance(to: port.dropped)
            waiting.set(port.waiting)
        }

        func destroy() {
            received.counter.destroy()
            dropped.counter.destroy()
            waiting.destroy()
        }
    }
#endif
