#if Tracing
    import Glibc
    import Ports
    import RunLoopLocks
    import Tracing
    import TypedPorts

    /// Makes the spans of askers and handlers.
    struct PortTracer: RequestTracing {
        /// Nil for the one that `InstrumentationSystem` has when a request comes.
        private let fixed: (any Tracer)?

        init(_ tracer: (any Tracer)?) { fixed = tracer }

        private var tracer: any Tracer { fixed ?? InstrumentationSystem.tracer }

        func asking(_ request: String, of service: String) -> any AskedRequestTrace { asked(request, service) }

        func asked(_ request: String, _ service: String) -> AskedSpan {
            let span = span(request, service, .client, .current ?? .topLevel, peer: nil)
            return AskedSpan(span, TraceContext.bytes(of: span.context, tracer))
        }

        func handling(
            _ request: String, of service: String, _ message: MachPort.Message, contextIn component: Int,
            _ body: @Sendable () async throws -> MachPort.Message
        ) async throws -> MachPort.Message {
            let span = handled(request, service, message, component).span
            defer { span.end() }
            let trace = HandledRequestTrace { span.note($0) }
            do {
                return try await ServiceContext.$current.withValue(span.context) {
                    try await HandledRequestTrace.$current.withValue(trace) { try await body() }
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
            let context = TraceContext.context(in: component, of: message, tracer)
            let span = span(request, service, .server, context ?? .topLevel, peer: message.sender)
            return (span, context != nil)
        }

        private func span(
            _ request: String, _ service: String?, _ kind: SpanKind, _ context: ServiceContext,
            peer: MachPort.Message.Sender?
        ) -> any Span {
            let name = service.map { "\($0)/\(request)" } ?? request
            let span = tracer.startAnySpan(name, context: context, ofKind: kind)
            // Not of a span that nobody keeps; and all at once, as each change of a span's attributes may copy them.
            guard span.isRecording else { return span }
            span.updateAttributes { attributes in
                // OpenTelemetry's names.
                attributes["rpc.system"] = "swift-ports"
                if let service { attributes["rpc.service"] = service }
                attributes["rpc.method"] = request
                attributes.note(peer: peer)
            }
            return span
        }
    }

    /// The span of an asker.
    final class AskedSpan: AskedRequestTrace {
        let context: [UInt8]?
        private let span: any Span
        private let hasEnded = Lock(false)

        init(_ span: any Span, _ context: [UInt8]?) { (self.span, self.context) = (span, context) }

        deinit { end(.success(nil)) }

        func end(_ outcome: Result<MachPort.Message?, any Error>) {
            let isFirst = hasEnded.withLock { hasEnded in
                defer { hasEnded = true }
                return !hasEnded
            }
            guard isFirst else { return }
            switch outcome {
            case .success(let reply):
                if let reply, span.isRecording { span.updateAttributes { $0.note(peer: reply.sender) } }
            case .failure(let error): span.note(error)
            }
            span.end()
        }
    }

    extension SpanAttributes {
        /// The process at the other end.
        fileprivate mutating func note(peer: MachPort.Message.Sender?) {
            guard let peer else { return }
            self["peer.pid"] = Int(peer.pid)
            if peer.pid != getpid() { self["network.transport"] = "unix" }
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
