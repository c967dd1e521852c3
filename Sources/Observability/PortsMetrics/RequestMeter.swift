import TypedPorts

#if Metrics
    import CoreMetrics
    import Ports
    import RunLoopLocks
    import Synchronization

    extension RequestClient {
        /// The same client, whose requests and streams are timed until their ends, as `rpc.client.call.duration`.
        /// <doc:PortsMetrics> has the dimensions.
        /// - Parameter factory: Where the metrics are made; unless given, the one that `MetricsSystem` has at this moment.
        public func measured(by factory: any MetricsFactory = MetricsSystem.factory) -> RequestClient {
            var client = self
            client.observers.meter = RequestMeter("rpc.client.call.duration", factory)
            return client
        }
    }

    extension RequestServer {
        /// Times the handlers of requests that come from now on, as `rpc.server.call.duration`. The handler of a stream
        /// ends when its asker has all elements, or is gone. <doc:PortsMetrics> has the dimensions.
        /// - Parameter factory: Where the metrics are made; unless given, the one that `MetricsSystem` has at this moment.
        public func measure(by factory: any MetricsFactory = MetricsSystem.factory) {
            observe { $0.meter = RequestMeter("rpc.server.call.duration", factory) }
        }
    }

    /// The durations of the requests of a client or server.
    private final class RequestMeter: RequestObserver {
        private struct Key: Hashable {
            let request: UInt32
            let service: String?
            let error: String?
            let network: String
        }

        private let label: String
        private let factory: any MetricsFactory
        private let timers = Lock<[Key: Timer]>([:])

        init(_ label: String, _ factory: any MetricsFactory) { (self.label, self.factory) = (label, factory) }

        func asking(_ request: KnownRequest, of service: String?) -> any AskedRequestObserver {
            TimedRequest { [self] start, network, error in note(request, service, network, start, error) }
        }

        func handling(
            _ request: KnownRequest, of service: String?, _ message: MessagePortRequest, behindContext: Int,
            isNetwork: Bool, _ handler: @Sendable (MessagePortRequest) async throws -> MachPort.Message
        ) async throws -> MachPort.Message {
            let start = ContinuousClock.now
            let network = isNetwork ? message.networkProtocol(behindContext) : ""
            do {
                let reply = try await handler(message)
                note(request, service, network, start, nil)
                return reply
            } catch {
                note(request, service, network, start, error)
                throw error
            }
        }

        private func note(
            _ request: KnownRequest, _ service: String?, _ network: String, _ start: ContinuousClock.Instant,
            _ error: (any Error)?
        ) {
            let duration = ContinuousClock.now - start
            let key = Key(request: request.id, service: service, error: error.map { errorType($0) }, network: network)
            let timer = timers.withLock { timers in
                if let timer = timers[key] { return timer }
                var dimensions = [
                    ("rpc.system.name", network.isEmpty ? "swift-ports" : "swift-ports.\(network)"),
                    ("rpc.method", service.map { "\($0)/\(request.name)" } ?? request.name),
                ]
                if let error = key.error { dimensions.append(("error.type", error)) }
                let timer = Timer(
                    label: label, dimensions: dimensions, preferredDisplayUnit: .seconds, factory: factory)
                timers[key] = timer
                return timer
            }
            timer.recordSeconds(duration / .seconds(1))
        }
    }

    /// A client's request until its end.
    private final class TimedRequest: AskedRequestObserver {
        private let start = ContinuousClock.now
        private let note: @Sendable (ContinuousClock.Instant, String, (any Error)?) -> Void
        private let hasEnded = Atomic(false)
        private let network = Lock("")

        init(_ note: @escaping @Sendable (ContinuousClock.Instant, String, (any Error)?) -> Void) { self.note = note }

        /// The asker has given a stream up.
        deinit { end(.success(nil)) }

        var context: [UInt8]? { nil }

        func goes(by networkProtocol: String) { network.withLock { $0 = networkProtocol } }

        func end(_ outcome: Result<MachPort.Message?, any Error>) {
            if hasEnded.exchange(true, ordering: .relaxed) { return }
            let network = network.withLock { $0 }
            guard case .failure(let error) = outcome else { return note(start, network, nil) }
            note(start, network, error)
        }
    }
#else
    extension RequestClient {
        /// The same client, whose requests are timed: with the package trait “Metrics”.
        @available(*, unavailable, message: "add the trait “Metrics” to the dependency on swift-ports")
        public func measured(by factory: Any? = nil) -> RequestClient { self }
    }

    extension RequestServer {
        /// Times the handlers: with the package trait “Metrics”.
        @available(*, unavailable, message: "add the trait “Metrics” to the dependency on swift-ports")
        public func measure(by factory: Any? = nil) {}
    }
#endif
