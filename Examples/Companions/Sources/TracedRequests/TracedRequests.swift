import InMemoryTracing
import Tracing
import TypedPorts

/// Doubles a number; a negative one is an error.
package struct Double: PortRequest {
    package typealias Reply = Int
    package enum Failure: Error, Codable { case negative }
    package let number: Int
    package init(_ number: Int) { self.number = number }
}

/// Counts to a number; to 13 it is an error.
package struct Count: PortStreamRequest {
    package typealias Element = Int
    package let limit: Int
    package init(to limit: Int) { self.limit = limit }
}

/// Asks the server for its spans.
package struct Spans: PortRequest {
    package typealias Reply = [SpanFacts]
    package init() {}
}

/// What the tests look at.
package struct SpanFacts: Codable, Sendable, Hashable {
    package let name, trace, span: String
    package let parent: String?
    package let kind: String
    package let attributes: [String: String]
    package let errors: [String]

    package init(_ span: FinishedInMemorySpan) {
        (name, trace, self.span, parent) = (span.operationName, span.traceID, span.spanID, span.parentSpanID)
        kind = "\(span.kind)"
        var attributes: [String: String] = [:]
        span.attributes.forEach { key, value in
            switch value {
            case .string(let text): attributes[key] = text
            case .int64(let number): attributes[key] = "\(number)"
            case .int32(let number): attributes[key] = "\(number)"
            default: attributes[key] = "\(value)"
            }
        }
        self.attributes = attributes
        errors = span.errors.map { "\($0.error)" }
    }
}

/// Answers the requests above, with spans when there is a tracer.
package func makeServer(_ port: LocalMessagePort, _ tracer: InMemoryTracer) -> RequestServer {
    let server = RequestServer(port)
    server.handle(Double.self) { request in
        try tracer.withSpan("arithmetic") { _ in
            guard request.number >= 0 else { throw Double.Failure.negative }
            return 2 * request.number
        }
    }
    server.handle(Count.self) { request in
        AsyncThrowingStream { continuation in
            for number in 1...request.limit { continuation.yield(number) }
            continuation.finish(throwing: request.limit == 13 ? Double.Failure.negative : nil)
        }
    }
    server.handle(Spans.self) { _ in tracer.finishedSpans.map(SpanFacts.init) }
    return server
}
