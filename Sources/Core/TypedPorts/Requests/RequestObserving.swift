// The modules PortsTracing and PortsMetrics observe requests. Without them, nothing is added to a request.

/// Follows requests from their askers to their handlers.
package protocol RequestObserver: AnyObject, Sendable {
    /// A request is about to be sent. The service is the name of the port, if it has one.
    func asking(_ request: KnownRequest, of service: String?) -> any AskedRequestObserver

    /// Calls the handler of a request.
    /// - Parameters:
    ///   - behindContext: The number of components behind the context of the asker's observer.
    ///   - isNetwork: Whether the request came from another machine. The last component of bytes says how.
    func handling(
        _ request: KnownRequest, of service: String?, _ message: MessagePortRequest, behindContext: Int,
        isNetwork: Bool, _ handler: @Sendable (MessagePortRequest) async throws -> MachPort.Message
    ) async throws -> MachPort.Message
}

/// Follows one request from before it is sent until its end. The release ends it, too.
package protocol AskedRequestObserver: AnyObject, Sendable {
    /// The bytes that travel with the request.
    var context: [UInt8]? { get }

    /// The request goes to another machine.
    func goes(by networkProtocol: String)

    /// Ends the request, unless it has ended.
    func end(_ outcome: Result<MachPort.Message?, any Error>)
}

/// The observers of a client or a server.
package struct RequestObservers: Sendable {
    package var tracer: (any RequestObserver)?
    package var meter: (any RequestObserver)?

    func asking(_ request: KnownRequest, of service: @autoclosure () -> String?) -> (any AskedRequestObserver)? {
        switch (tracer, meter) {
        case (nil, nil): nil
        case (let observer?, nil), (nil, let observer?): observer.asking(request, of: service())
        case (let tracer?, let meter?):
            PairedObserver(meter.asking(request, of: service()), tracer.asking(request, of: service()))
        }
    }

    func handling(
        _ request: KnownRequest, of service: String?, _ message: MessagePortRequest, behindContext: Int,
        isNetwork: Bool, _ handler: @escaping @Sendable (MessagePortRequest) async throws -> MachPort.Message
    ) async throws -> MachPort.Message {
        guard let outer = meter ?? tracer else { return try await handler(message) }
        @Sendable func observe(
            _ observer: any RequestObserver, _ message: MessagePortRequest,
            _ handler: @Sendable (MessagePortRequest) async throws -> MachPort.Message
        ) async throws -> MachPort.Message {
            try await observer.handling(
                request, of: service, message, behindContext: behindContext, isNetwork: isNetwork, handler)
        }
        guard let tracer, meter != nil else { return try await observe(outer, message, handler) }
        return try await observe(outer, message) { message in try await observe(tracer, message, handler) }
    }
}

/// Passes the events of one request on to two observers.
private final class PairedObserver: AskedRequestObserver {
    private let meter, tracer: any AskedRequestObserver

    init(_ meter: any AskedRequestObserver, _ tracer: any AskedRequestObserver) {
        (self.meter, self.tracer) = (meter, tracer)
    }

    var context: [UInt8]? { tracer.context }

    func goes(by networkProtocol: String) {
        meter.goes(by: networkProtocol)
        tracer.goes(by: networkProtocol)
    }

    func end(_ outcome: Result<MachPort.Message?, any Error>) {
        meter.end(outcome)
        tracer.end(outcome)
    }
}

/// The kind of an error, for metrics and traces. It has none of the error's values, so that the number of kinds is
/// small.
package func errorType(_ error: any Error) -> String {
    // Private types, and those inside functions, have a context without a name, which differs from build to build.
    let parts = String(reflecting: type(of: error)).split(separator: ".").filter { !$0.hasPrefix("(unknown context") }
    // The first part is the module.
    let name = parts.dropFirst().joined(separator: ".")
    guard error is PortError, let kind = Mirror(reflecting: error).children.first?.label else { return name }
    return "\(name).\(kind)"
}
