#if Tracing
    import Ports
    import RunLoopLocks
    import Tracing
    import TypedPorts

    /// Makes the spans of a typed client or server.
    final class RequestTracer: RequestObserver {
        private let tracer: RequestSpans
        /// Each made once, as that takes longer than a tracer's span.
        private let subjects = Lock<[UInt32: SpanSubject]>([:])

        init(_ tracer: (any Tracer)?) { self.tracer = RequestSpans(tracer) }

        func asking(_ request: KnownRequest, of service: String?) -> any AskedRequestObserver {
            tracer.asked(subject(request, service))
        }

        func handling(
            _ request: KnownRequest, of service: String?, _ message: MessagePortRequest, behindContext: Int,
            isNetwork: Bool, _ handler: @Sendable (MessagePortRequest) async throws -> MachPort.Message
        ) async throws -> MachPort.Message {
            let component = message.message.componentCount - 1 - behindContext
            let network = isNetwork ? message.networkProtocol(behindContext) : nil
            let span = tracer.handled(subject(request, service), message.message, component, network).span
            return try await span.around { try await handler(message) }
        }

        private func subject(_ request: KnownRequest, _ service: String?) -> SpanSubject {
            if let subject = subjects.withLock({ $0[request.id] }), subject.service == service { return subject }
            let subject = SpanSubject(request.name, service)
            subjects.withLock { $0[request.id] = subject }
            return subject
        }
    }
#endif
