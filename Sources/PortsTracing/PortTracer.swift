#if Tracing
    import Ports
    import Synchronization
    import Tracing
    import TypedPorts

    /// Makes the spans of askers and handlers.
    struct PortTracer: RequestTracing {
        /// Nil for the one that `InstrumentationSystem` has when a request comes.
        private let fixed: (any Tracer)?
        /// Nil for requests without types, each of which may have an operation of its own.
        private let subjects: SpanSubjects?

        init(_ tracer: (any Tracer)?, _ subjects: SpanSubjects? = nil) { (fixed, self.subjects) = (tracer, subjects) }

        private var tracer: any Tracer { fixed ?? InstrumentationSystem.tracer }

        func asking(_ request: String, of service: String) -> any AskedRequestTrace { asked(request, service) }

        func asked(_ request: String, _ service: String) -> AskedSpan {
            let tracer = tracer
            let span = span(tracer, request, service, .client, .current ?? .topLevel) { nil }
            return AskedSpan(span, TraceContext.bytes(of: span.context, tracer))
        }

        func handling(
            _ request: String, of service: String, _ message: MachPort.Message, contextIn component: Int,
            isStream: Bool,
            _ body: @Sendable () async throws -> MachPort.Message
        ) async throws -> MachPort.Message {
            let span = handled(request, service, message, component).span
            defer { span.end() }
            do {
                return try await ServiceContext.$current.withValue(span.context) {
                    guard isStream else { return try await body() }
                    let trace = HandledRequestTrace { span.note($0) }
                    return try await HandledRequestTrace.$current.withValue(trace) { try await body() }
                }
            } catch {
                span.note(error)
                throw error
            }
        }

        /// The span of a handler, and whether the asker has sent its context.
        func handled(
            _ request: String, _ service: String?, _ message: MachPort.Message, _ component: Int
        ) -> (span: any Span, isFollowed: Bool) {
            let tracer = tracer
            let context = TraceContext.context(in: component, of: message, tracer)
            let span = span(tracer, request, service, .server, context ?? .topLevel) { message.sender }
            return (span, context != nil)
        }

        private func span(
            _ tracer: any Tracer, _ request: String, _ service: String?, _ kind: SpanKind, _ context: ServiceContext,
            peer: () -> MachPort.Message.Sender?
        ) -> any Span {
            let subject = subjects?.subject(request, service) ?? SpanSubject(request, service)
            let span = tracer.startAnySpan(subject.name, context: context, ofKind: kind)
            // Not of a span that nobody keeps; and all at once, as each change of a span's attributes may copy them.
            guard span.isRecording else { return span }
            span.updateAttributes { attributes in
                let own = subject.attributes(peer: peer())
                if attributes.isEmpty { attributes = own } else { attributes.merge(own) }
            }
            return span
        }
    }

    /// The span of an asker.
    final class AskedSpan: AskedRequestTrace {
        let context: [UInt8]?
        private let span: any Span
        private let hasEnded = Atomic(false)

        init(_ span: any Span, _ context: [UInt8]?) { (self.span, self.context) = (span, context) }

        deinit { end(.success(nil)) }

        func end(_ outcome: Result<MachPort.Message?, any Error>) {
            if hasEnded.exchange(true, ordering: .relaxed) { return }
            switch outcome {
            case .success(let reply):
                if let reply, span.isRecording { span.updateAttributes { $0.note(peer: reply.sender) } }
            case .failure(let error): span.note(error)
            }
            span.end()
        }
    }

    extension Span {
        func note(_ error: any Error) {
            recordError(error)
            attributes["error.type"] = "\(type(of: error))"
            setStatus(SpanStatus(code: .error, message: "\(error)"))
        }
    }
#endif
