#if Tracing
    import Ports
    import RunLoopLocks
    import Synchronization
    import Tracing
    import TypedPorts

    /// Makes the spans of askers and handlers.
    package struct RequestSpans: Sendable {
        /// Nil for the one that `InstrumentationSystem` has when a request comes.
        private let fixed: (any Tracer)?

        package init(_ tracer: (any Tracer)?) { fixed = tracer }

        private var tracer: any Tracer {
            // With one cast: `InstrumentationSystem.tracer` makes three, which take longer than a span.
            fixed ?? (InstrumentationSystem.instrument as? any Tracer) ?? InstrumentationSystem.tracer
        }

        package func asked(_ subject: SpanSubject) -> AskedSpan {
            let tracer = tracer
            let span = tracer.startAnySpan(subject.name, context: .current ?? .topLevel, ofKind: .client)
            return AskedSpan(span, subject, TraceContext.bytes(of: span.context, tracer))
        }

        /// The span of a handler, and whether the asker has sent its context.
        package func handled(
            _ subject: SpanSubject, _ message: MachPort.Message, _ component: Int, _ network: String? = nil
        ) -> (span: any Span, isFollowed: Bool) {
            let tracer = tracer
            let context = TraceContext.context(in: component, of: message, tracer)
            let span = tracer.startAnySpan(subject.name, context: context ?? .topLevel, ofKind: .server)
            subject.describe(span, peer: network == nil ? message.sender : nil, network)
            return (span, context != nil)
        }
    }

    /// The span of an asker.
    package final class AskedSpan: AskedRequestObserver {
        package let context: [UInt8]?
        private let span: any Span
        private let subject: SpanSubject
        private let hasEnded = Atomic(false)
        private let network = Lock<String?>(nil)

        init(_ span: any Span, _ subject: SpanSubject, _ context: [UInt8]?) {
            (self.span, self.subject, self.context) = (span, subject, context)
        }

        deinit { end(.success(nil)) }

        package func goes(by networkProtocol: String) { network.withLock { $0 = networkProtocol } }

        package func end(_ outcome: Result<MachPort.Message?, any Error>) {
            if hasEnded.exchange(true, ordering: .relaxed) { return }
            // Only now, as the reply tells the peer.
            subject.describe(span, peer: (try? outcome.get())?.sender, network.withLock { $0 })
            if case .failure(let error) = outcome { span.note(error) }
            span.end()
        }
    }

    extension Span {
        func note(_ error: any Error) {
            recordError(error)
            attributes["error.type"] = errorType(error)
            setStatus(SpanStatus(code: .error, message: "\(error)"))
        }

        /// Runs a handler in the span, and ends the span.
        nonisolated(nonsending) func around<Value>(
            _ body: nonisolated(nonsending) () async throws -> Value
        ) async throws -> Value {
            defer { end() }
            do {
                return try await ServiceContext.$current.withValue(context) { try await body() }
            } catch {
                note(error)
                throw error
            }
        }
    }
#endif
