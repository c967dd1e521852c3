#if Tracing
    import Ports
    import RunLoops
    import Tracing
    import TypedPorts

    extension RemoteMessagePort {
        /// Sends a message and returns the reply, as `request(_:timeout:)` does, in a span that is named after the operation.
        /// The context of the span travels as one more component behind the message's own. `withSpan` takes it off in the
        /// server. Use this only with servers that call `withSpan`, or that read no further component than they know.
        public nonisolated(nonsending) func tracedRequest(
            _ message: MachPort.Message, operation: String, timeout: Duration = .seconds(10),
            tracer: (any Tracer)? = nil
        ) async throws -> MachPort.Message {
            let asked = RequestSpans(tracer).asked(SpanSubject(operation, name))
            return try await asked.reply { try await request(asked.message(message), timeout: timeout) }
        }

        /// Sends a message and returns the reply, in a span that is named after the operation. The call blocks as
        /// `request(_:timeout:replyMode:)` does: the thread's loop runs in the reply mode meanwhile.
        @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
        public func tracedRequest(
            _ message: MachPort.Message, operation: String, timeout: Duration = .seconds(10),
            replyMode: ThreadRunLoop.Mode? = nil, tracer: (any Tracer)? = nil
        ) throws -> MachPort.Message {
            let asked = RequestSpans(tracer).asked(SpanSubject(operation, name))
            return try asked.reply {
                try request(asked.message(message), timeout: timeout, replyMode: replyMode)
            }
        }
    }

    extension NamedMessagePort {
        /// Sends a message and returns the reply, as `request(_:timeout:mayRepeat:)` does, in one span for all attempts. The
        /// context of the span travels as one more component, which `withSpan` takes off in the server.
        public nonisolated(nonsending) func tracedRequest(
            _ message: MachPort.Message, operation: String, timeout: Duration = .seconds(10), mayRepeat: Bool = false,
            tracer: (any Tracer)? = nil
        ) async throws -> MachPort.Message {
            let asked = RequestSpans(tracer).asked(SpanSubject(operation, name))
            return try await asked.reply {
                try await request(asked.message(message), timeout: timeout, mayRepeat: mayRepeat)
            }
        }
    }

    extension MessagePortRequest {
        /// Handles the request in a span, whose parent is the asker's span if the asker is traced. The body gets the
        /// message without the context that travelled with it; `ServiceContext.current` there is the span's.
        public nonisolated(nonsending) func withSpan<Value>(
            _ operation: String, tracer: (any Tracer)? = nil,
            _ body: nonisolated(nonsending) (MachPort.Message) async throws -> Value
        ) async throws -> Value {
            let (span, message) = handled(operation, tracer)
            return try await span.around { try await body(message) }
        }

        /// Handles the request in a span, in a handler on a loop's thread. The span's parent is the asker's span if the asker
        /// is traced.
        public func withSpan<Value>(
            _ operation: String, tracer: (any Tracer)? = nil, _ body: (MachPort.Message) throws -> Value
        ) rethrows -> Value {
            let (span, message) = handled(operation, tracer)
            defer { span.end() }
            do {
                return try ServiceContext.$current.withValue(span.context) { try body(message) }
            } catch {
                span.note(error)
                throw error
            }
        }

        private func handled(_ operation: String, _ tracer: (any Tracer)?) -> (any Span, MachPort.Message) {
            var message = message
            let last = message.componentCount - 1
            let (span, isFollowed) = RequestSpans(tracer).handled(SpanSubject(operation, nil), message, last)
            if isFollowed { message.components.removeLast() }
            return (span, message)
        }
    }

    extension AskedSpan {
        func message(_ message: MachPort.Message) -> MachPort.Message {
            guard let context else { return message }
            var message = message
            message.components.append(.bytes(context))
            return message
        }

        nonisolated(nonsending) func reply(
            _ ask: nonisolated(nonsending) () async throws -> MachPort.Message
        ) async throws -> MachPort.Message {
            let reply: Result<MachPort.Message, any Error>
            do { reply = .success(try await ask()) } catch { reply = .failure(error) }
            end(reply.map { $0 })
            return try reply.get()
        }

        func reply(_ ask: () throws -> MachPort.Message) throws -> MachPort.Message {
            let reply = Result { try ask() }
            end(reply.map { $0 })
            return try reply.get()
        }
    }
#endif
