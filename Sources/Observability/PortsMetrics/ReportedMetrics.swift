#if Metrics
    import CoreMetrics
    import Ports

    /// The metrics, and what they were last told.
    struct ReportedMetrics: Sendable {
        private let factory: any MetricsFactory
        private var sent, received, refused, late, dropped: Total
        private let waiting, requests, peers, ports, memoryUsed, memorySize: Meter
        private var named: [String: NamedPort] = [:]
        private var pools: [String: Pool] = [:]
        private var services: [String: Service] = [:]
        private var states: [String: Meter] = [:]

        init(_ factory: any MetricsFactory) {
            self.factory = factory
            // The names and the dimensions are OpenTelemetry's, where it has some for the thing.
            func operation(_ name: String) -> [(String, String)] {
                [("messaging.system", "swift-ports"), ("messaging.operation.name", name)]
            }
            sent = Total("messaging.client.sent.messages", operation("send"), factory)
            received = Total("messaging.client.consumed.messages", operation("receive"), factory)
            refused = Total("ports.requests.refused", [], factory)
            late = Total("ports.replies.late", [], factory)
            dropped = Total("ports.messages.dropped", [], factory)
            waiting = Meter(label: "ports.messages.waiting", factory: factory)
            requests = Meter(label: "ports.requests.active", factory: factory)
            peers = Meter(label: "ports.peers", factory: factory)
            ports = Meter(label: "ports.count", factory: factory)
            memoryUsed = Meter(label: "ports.shared_memory.used", factory: factory)
            memorySize = Meter(label: "ports.shared_memory.size", factory: factory)
        }

        mutating func report(_ counters: PortCounters) {
            sent.advance(to: counters.sent)
            received.advance(to: counters.received)
            refused.advance(to: counters.refused)
            late.advance(to: counters.late)
            dropped.advance(to: counters.dropped)
            waiting.set(counters.waiting)
            requests.set(counters.requests)
            peers.set(counters.peers)
            ports.set(counters.ports)
            memoryUsed.set(counters.sharedMemory.used)
            memorySize.set(counters.sharedMemory.size)
            named.follow(counters.named) { [factory] in NamedPort($0, factory) }
            pools.follow(counters.pools) { [factory] in Pool($0, factory) }
            services.follow(counters.services) { [factory] in Service($0, factory) }
            report(states: counters.services.values.map(\.state))
        }

        /// A state keeps its gauge when the last service has left it.
        private mutating func report(states all: [String]) {
            for state in all where states[state] == nil {
                states[state] = Meter(
                    label: "ports.services", dimensions: [("ports.service.state", state)], factory: factory)
            }
            for (state, meter) in states { meter.set(all.count { $0 == state }) }
        }
    }

    /// The metrics of one thing with a name, as long as there is such a thing.
    private protocol NamedMetrics {
        associatedtype Counters
        mutating func report(_ counters: Counters)
        func destroy()
    }

    extension Dictionary where Key == String, Value: NamedMetrics {
        /// Reports all things, and ends the metrics of those that are gone.
        fileprivate mutating func follow(_ counters: [String: Value.Counters], _ make: (String) -> Value) {
            for (name, metrics) in self where counters[name] == nil {
                metrics.destroy()
                self[name] = nil
            }
            for (name, counters) in counters { self[name, default: make(name)].report(counters) }
        }
    }

    /// A counter that follows a count.
    private struct Total: Sendable {
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

        /// A count that has fallen is another thing's of the same name.
        mutating func follow(_ count: Int) {
            if count < last { restart() }
            advance(to: count)
        }

        /// The count is another thing's, and begins at zero.
        mutating func restart() { last = 0 }
    }

    /// The metrics of a port with a name, or of several that have it one after the other.
    private struct NamedPort: NamedMetrics, Sendable {
        private let name: String
        private let factory: any MetricsFactory
        private var id: PortID?
        private var received, dropped: Total
        private let waiting, requests: Meter
        private var lanes: [String: Lane] = [:]

        init(_ name: String, _ factory: any MetricsFactory) {
            (self.name, self.factory) = (name, factory)
            let destination = [("messaging.destination.name", name)]
            received = Total("ports.named.received", destination, factory)
            dropped = Total("ports.named.dropped", destination, factory)
            waiting = Meter(label: "ports.named.waiting", dimensions: destination, factory: factory)
            requests = Meter(label: "ports.named.requests.active", dimensions: destination, factory: factory)
        }

        mutating func report(_ port: PortCounters.Port) {
            if port.id != id {
                received.restart()
                dropped.restart()
                for lane in lanes.keys { lanes[lane]?.restart() }
            }
            id = port.id
            received.advance(to: port.received)
            dropped.advance(to: port.dropped)
            waiting.set(port.waiting)
            requests.set(port.requests)
            lanes.follow(port.lanes) { [name, factory] in Lane($0, of: name, factory) }
        }

        func destroy() {
            received.counter.destroy()
            dropped.counter.destroy()
            waiting.destroy()
            requests.destroy()
            for lane in lanes.values { lane.destroy() }
        }
    }

    private struct Lane: NamedMetrics, Sendable {
        private let running, waiting: Meter
        private var refused: Total

        init(_ name: String, of port: String, _ factory: any MetricsFactory) {
            let dimensions = [("messaging.destination.name", port), ("ports.lane.name", name)]
            running = Meter(label: "ports.lane.running", dimensions: dimensions, factory: factory)
            waiting = Meter(label: "ports.lane.waiting", dimensions: dimensions, factory: factory)
            refused = Total("ports.lane.refused", dimensions, factory)
        }

        mutating func report(_ lane: RequestLane.Counters) {
            running.set(lane.running)
            waiting.set(lane.waiting)
            refused.advance(to: lane.refused)
        }

        mutating func restart() { refused.restart() }

        func destroy() {
            running.destroy()
            waiting.destroy()
            refused.counter.destroy()
        }
    }

    private struct Pool: NamedMetrics, Sendable {
        private let name: String
        private let factory: any MetricsFactory
        private let idle, busy, spares, missing, waiting: Meter
        private var waited: Total
        private let waitTime: FloatingPointCounter
        private var lastWaitTime = Duration.zero
        private var ended: [String: Total] = [:]

        init(_ name: String, _ factory: any MetricsFactory) {
            (self.name, self.factory) = (name, factory)
            func workers(_ state: String) -> Meter {
                Meter(
                    label: "ports.pool.workers",
                    dimensions: [("ports.pool.name", name), ("ports.worker.state", state)], factory: factory)
            }
            (idle, busy) = (workers("idle"), workers("busy"))
            (spares, missing) = (workers("spare"), workers("missing"))
            let dimensions = [("ports.pool.name", name)]
            waiting = Meter(label: "ports.pool.waiting", dimensions: dimensions, factory: factory)
            waited = Total("ports.pool.waited", dimensions, factory)
            waitTime = FloatingPointCounter(label: "ports.pool.wait.time", dimensions: dimensions, factory: factory)
        }

        mutating func report(_ pool: PortCounters.Pool) {
            idle.set(pool.idle)
            busy.set(pool.busy)
            spares.set(pool.spares)
            missing.set(pool.missing)
            waiting.set(pool.waiting)
            waited.advance(to: pool.waited)
            if pool.waitTime > lastWaitTime {
                waitTime.increment(by: (pool.waitTime - lastWaitTime) / .seconds(1))
                lastWaitTime = pool.waitTime
            }
            for (cause, count) in pool.ended {
                let dimensions = [("ports.pool.name", name), ("ports.worker.end", cause)]
                var total = ended[cause] ?? Total("ports.pool.workers.ended", dimensions, factory)
                total.advance(to: count)
                ended[cause] = total
            }
        }

        func destroy() {
            for meter in [idle, busy, spares, missing, waiting] { meter.destroy() }
            waited.counter.destroy()
            waitTime.destroy()
            for total in ended.values { total.counter.destroy() }
        }
    }

    private struct Service: NamedMetrics, Sendable {
        private var starts: Total

        init(_ name: String, _ factory: any MetricsFactory) {
            starts = Total("ports.service.starts", [("ports.service.name", name)], factory)
        }

        mutating func report(_ service: PortCounters.Service) { starts.follow(service.starts) }
        func destroy() { starts.counter.destroy() }
    }
#endif
