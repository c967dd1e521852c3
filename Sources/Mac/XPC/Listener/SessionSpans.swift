#if Tracing
    import Ports
    import PortsTracing
    import Tracing
    import TypedPorts

    extension XPCSession {
        /// Makes a span for each message that is sent from now on, and for each call of the handler of incoming messages. The
        /// page of PortsTracing says what the spans have, and what travels. Not in Apple's module.
        /// - Parameter tracer: Makes the spans; nil for the one that `InstrumentationSystem` has when a message is sent or
        ///   comes.
        public func trace(by tracer: (any Tracer)? = nil) {
            core.setObserver(SessionTracer(service, tracer))
        }
    }

    extension XPCListener {
        /// Makes spans for the messages of all sessions that are accepted from now on: see ``XPCSession/trace(by:)``. Not in
        /// Apple's module.
        /// - Parameter tracer: Makes the spans; nil for the one that `InstrumentationSystem` has when a message is sent or
        ///   comes.
        public func trace(by tracer: (any Tracer)? = nil) { core.setObserver { SessionTracer($0, tracer) } }
    }

    private struct SessionTracer: SessionObserver {
        private let spans: RequestSpans
        private let subject: SpanSubject

        /// - Parameter service: The name of the listener; nil for none.
        init(_ service: String?, _ tracer: (any Tracer)?) {
            (spans, subject) = (RequestSpans(tracer), SpanSubject("XPC message", service))
        }

        func sending() -> any AskedRequestObserver { spans.asked(subject) }

        func handling(_ message: MachPort.Message, context component: Int, _ handler: () -> Void) {
            let span = spans.handled(subject, message, component).span
            defer { span.end() }
            ServiceContext.$current.withValue(span.context) { handler() }
        }
    }
#else
    extension XPCSession {
        /// Makes spans for messages: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func trace(by tracer: Any? = nil) {}
    }

    extension XPCListener {
        /// Makes spans for messages: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func trace(by tracer: Any? = nil) {}
    }
#endif
