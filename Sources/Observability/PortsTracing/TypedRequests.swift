import TypedPorts

#if Tracing
    import Tracing

    extension RequestClient {
        /// The same client, with a span for each request and stream. The context of the span travels with the request, as
        /// a component behind the others; servers that know nothing of it pass over the component.
        /// - Parameter tracer: Makes the spans; nil for the one that `InstrumentationSystem` has when a request is made.
        public func traced(by tracer: (any Tracer)? = nil) -> RequestClient {
            var client = self
            client.observers.tracer = RequestTracer(tracer)
            return client
        }
    }

    extension RequestServer {
        /// Handles requests that come from now on in spans. A span's parent is the asker's, if the asker is traced, and
        /// `ServiceContext.current` in the handler is the span's.
        /// - Parameter tracer: Makes the spans; nil for the one that `InstrumentationSystem` has when a request comes.
        public func trace(by tracer: (any Tracer)? = nil) {
            observe { $0.tracer = RequestTracer(tracer) }
        }
    }
#endif
