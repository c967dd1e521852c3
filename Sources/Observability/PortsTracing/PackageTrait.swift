#if !Tracing
    import Ports
    import TypedPorts

    // The methods that the module has with the trait. Without it, the error of their use names the trait.

    extension RequestClient {
        /// The same client, with a span for each request: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func traced(by tracer: Any? = nil) -> RequestClient { self }
    }

    extension RequestServer {
        /// Handles requests in spans: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func trace(by tracer: Any? = nil) {}
    }

    extension RemoteMessagePort {
        /// Sends a message in a span: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func tracedRequest(
            _ message: MachPort.Message, operation: String, timeout: Duration = .zero, tracer: Any? = nil
        ) throws -> MachPort.Message { message }
    }

    extension NamedMessagePort {
        /// Sends a message in a span: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func tracedRequest(
            _ message: MachPort.Message, operation: String, timeout: Duration = .zero, tracer: Any? = nil
        ) throws -> MachPort.Message { message }
    }

    extension MessagePortRequest {
        /// Handles the request in a span: with the package trait “Tracing”.
        @available(*, unavailable, message: "add the trait “Tracing” to the dependency on swift-ports")
        public func withSpan<Value>(
            _ operation: String, tracer: Any? = nil, _ body: (MachPort.Message) throws -> Value
        ) rethrows -> Value { try body(message) }
    }
#endif
