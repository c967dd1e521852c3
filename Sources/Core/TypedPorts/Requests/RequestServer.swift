import Ports
import RunLoopLocks

/// Answers typed requests in tasks.
///
///     struct Lookup: PortRequest {
///         typealias Reply = String?
///         var word: String
///     }
///
///     let server = try RequestServer(name: "com.example.dictionary")
///     server.handle(Lookup.self) { lookup in ["port": "where messages arrive"][lookup.word] }
///     try await server.run()
///
/// Requests wait at the port until the server runs. Any thread may call all methods.
public final class RequestServer: Sendable {
    /// The port that takes the requests.
    public let port: LocalMessagePort

    typealias Handler = @Sendable (MessagePortRequest) async throws -> MachPort.Message

    private struct Entry {
        let request: KnownRequest
        let isStream: Bool
        let isNetwork: Bool
        let call: Handler
        let failure: @Sendable (any Error) -> any Error

        /// The components behind the context of an observer: the sender on another machine, and a stream's port.
        var behindContext: Int { (isNetwork ? 1 : 0) + (isStream ? 1 : 0) }
    }

    let coder: any MessageCoder

    private struct State {
        var handlers: [UInt32: Entry] = [:]
        var observers = RequestObservers()
        /// The requests whose handlers have begun.
        var begunCount = 0
        /// The transports by which other machines send requests.
        var transports: [any RequestTransport] = []
    }

    private let state = Lock(State())

    /// Makes a server for requests to a port of its own, with a name or without. The limits are those of a `MachPort`.
    /// - Parameters:
    ///   - name: The name by which clients find the server.
    ///   - nameServer: Where the name is registered.
    ///   - queueLimit: The requests of one client process that wait at the port before further askers wait.
    ///   - byteLimit: The bytes of one client process's requests that wait; nil for any number, which is faster.
    ///   - messageLimit: The largest request, in bytes.
    ///   - coder: Turns requests and replies into bytes; clients need the same one.
    /// - Throws: `PortError`: `nameInUse`, `badName`, `invalidLimit`, `outOfDescriptors`, or an error of the
    ///   directory.
    public convenience init(
        name: String? = nil, nameServer: PortNameServer = .shared, queueLimit: Int = 1000, byteLimit: Int? = nil,
        messageLimit: Int = 64 << 20, coder: any MessageCoder = CBORCoder()
    ) throws(PortError) {
        let port = try LocalMessagePort(
            name: name, nameServer: nameServer, queueLimit: queueLimit, byteLimit: byteLimit, messageLimit: messageLimit
        )
        self.init(port, coder: coder)
    }

    /// Makes a server for requests to a port, which must have no handler of its own.
    public init(_ port: LocalMessagePort, coder: any MessageCoder = CBORCoder()) {
        self.port = port
        self.coder = coder
    }

    /// The right to send requests to the server, for clients that do not look up a name: `RequestClient(right)`.
    public var sendRight: MachPort.SendRight { port.sendRight }

    /// Sets the handler for the requests of a type. An asker that gives up cancels the handler's task. The asker gets
    /// what the handler throws: the request's `Failure` as it is, another error as `PortError.failed` with its
    /// description. Each type, and each name of a request, has one handler. Setting a second one stops the process.
    ///
    /// A lane limits how many requests of a type, or of several types, are handled at a time, so that the others need
    /// not wait for them:
    ///
    ///     func handleJobs(of server: RequestServer) {
    ///         struct Import: PortRequest { typealias Reply = EmptyReply }
    ///         struct Status: PortRequest { typealias Reply = String }
    ///         server.handle(Import.self, in: RequestLane("imports", atMost: 2)) { _ in EmptyReply() }
    ///         server.handle(Status.self, in: RequestLane(atMost: 10)) { _ in "fine" }
    ///     }
    ///
    /// - Parameters:
    ///   - type: The requests.
    ///   - lane: Where the requests are handled; nil for the lane that the type names, or that of all other requests.
    ///   - handler: Returns the reply, or throws.
    public func handle<R: PortRequest>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R) async throws -> R.Reply
    ) {
        add(type, in: lane, takesNetwork: R.self is any NetworkRequest.Type) { [coder] request, _ in
            try coder.message(await handler(request))
        }
    }

    /// Sets a handler that gets also the message port's request, which tells the sender.
    /// - Parameters:
    ///   - type: The requests.
    ///   - lane: Where the requests are handled; nil for the lane that the type names, or that of all other requests.
    ///   - handler: Returns the reply, or throws.
    public func handle<R: PortRequest>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> R.Reply
    ) {
        add(type, in: lane) { [coder] request, message in try coder.message(await handler(request, message)) }
    }

    /// Calls the handlers, each in a task of its own and so in no order, until the port is invalid or the calling task
    /// is cancelled. Then handlers that still run are cancelled, and the call returns when all have returned. To answer
    /// all taken requests before the end, call ``finish(timeout:)``.
    /// - Parameters:
    ///   - limit: The requests in progress, of the types that have no lane. Further ones wait at the port
    ///     (back-pressure). In a server with lanes, as many of them wait in the server as `whenFull` says.
    ///   - streamLimit: The streams in progress, of the types that have no lane. A request for a further one fails with
    ///     `PortError.serverBusy`.
    ///   - whenFull: The fate of further requests of types without a lane.
    /// - Throws: `PortError.invalidLimit`, at once, for a limit below 1, or a negative limit for streams.
    public func run(
        atMost limit: Int = 100, streamsAtMost streamLimit: Int = 1000, whenFull: RequestLane.WhenFull = .wait
    ) async throws(PortError) {
        try PortError.check("atMost", limit, in: 1...Int.max)
        let lane = RequestLane(atMost: limit, whenFull: whenFull)
        let transports = state.withLock { $0.transports }
        if transports.isEmpty { return try await port.serveMessages(in: lane, lasting: streamLimit, answer) }
        try await serve(with: transports) { () throws(PortError) in
            try await self.port.serveMessages(in: lane, lasting: streamLimit, self.answer)
        }
    }

    /// Runs the transports beside the port, until the port ends or one of them fails.
    private func serve(
        with transports: [any RequestTransport], _ servePort: @escaping @Sendable () async throws(PortError) -> Void
    ) async throws(PortError) {
        let failure = await withTaskGroup(of: PortError?.self) { group in
            for transport in transports {
                group.addTask {
                    do throws(PortError) { try await transport.serve(self) } catch { return error }
                    return nil
                }
            }
            group.addTask {
                do throws(PortError) { try await servePort() } catch { return error }
                return nil
            }
            // All end together: a transport ends only when it can take nothing more.
            let first = await group.next()
            group.cancelAll()
            return first ?? nil
        }
        if let failure { throw failure }
    }

    @Sendable func answer(_ request: MessagePortRequest) async throws -> MachPort.Message {
        let (entry, observers) = state.withLock { [id = request.id] state in
            state.begunCount &+= 1
            return (state.handlers[id], state.observers)
        }
        guard let entry else {
            if request.id == Self.pingID { return MachPort.Message() }
            throw unknownRequest(request.id)
        }
        do {
            return try await observers.handling(
                entry.request, of: port.name, request, behindContext: entry.behindContext, isNetwork: entry.isNetwork,
                entry.call)
        } catch {
            throw entry.failure(error)
        }
    }

    /// The number of requests whose handlers have begun.
    var begunCount: Int { state.withLock { $0.begunCount } }

    /// The requests with handlers. A request that may come from other machines is there twice.
    var handled: [(request: KnownRequest, isStream: Bool, isNetwork: Bool)] {
        state.withLock { $0.handlers.values.map { ($0.request, $0.isStream, $0.isNetwork) } }
    }

    func handled(under id: UInt32) -> (request: KnownRequest, isStream: Bool)? {
        state.withLock { $0.handlers[id].map { ($0.request, $0.isStream) } }
    }

    func unknownRequest(_ id: UInt32, isNetwork: Bool = false) -> RequestFailure {
        let names = handled.filter { $0.isNetwork == isNetwork }.map(\.request.name).sorted()
        let more = names.count > 8 ? ", and \(names.count - 8) more" : ""
        let known = names.isEmpty ? "has no handlers" : "handles " + names.prefix(8).joined(separator: ", ") + more
        return RequestFailure(
            fault: "the server knows no request of the id \(id): it \(known)", data: Array(known.utf8),
            id: .unknownRequest)
    }

    /// Changes the observers of future requests.
    package func observe(_ change: (inout RequestObservers) -> Void) { state.withLock { change(&$0.observers) } }

    /// Refuses further requests, and those that wait for their lane, so that their clients can ask a successor. Waits for the
    /// requests and streams that have handlers, and ends the server. Then
    /// ``run(atMost:streamsAtMost:whenFull:)`` returns. A stream without an end lasts until the time is over.
    /// - Parameter timeout: The longest wait; nil for no end.
    /// - Returns: False when the time was over before, or the task was cancelled.
    @discardableResult
    public nonisolated(nonsending) func finish(timeout: Duration? = nil) async -> Bool {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        let transports = state.withLock { $0.transports }
        // Their requests wait in the port's lanes, and those with handlers end before the port.
        if !transports.isEmpty { port.refuseFurther() }
        for transport in transports { await transport.finish(before: deadline) }
        return await port.finish(before: deadline)
    }

    /// Adds a transport by which other machines send requests. Only a later ``run(atMost:streamsAtMost:whenFull:)`` uses
    /// it.
    package func add(_ transport: any RequestTransport) {
        state.withLock { $0.transports.append(transport) }
        // The port may outlive the server.
        port.addTransport { [weak transport] in transport?.requestsInProgress ?? [] }
    }

    /// - Parameter takesNetwork: Whether the handler takes requests from other machines, too.
    func add<R: NamedRequest>(
        _ type: R.Type, in lane: RequestLane?, isStream: Bool = false, takesNetwork: Bool = false,
        _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> MachPort.Message
    ) {
        let coder = coder
        func entry(isNetwork: Bool) -> Entry {
            Entry(
                request: R.known, isStream: isStream, isNetwork: isNetwork,
                call: { message in try await handler(try message.decode(R.self, with: coder), message) },
                failure: { R.sentError($0, coder) })
        }
        let known = R.known
        let former = state.withLock { state in
            let other = takesNetwork ? state.handlers.updateValue(entry(isNetwork: true), forKey: known.networkID) : nil
            return state.handlers.updateValue(entry(isNetwork: false), forKey: known.id) ?? other
        }
        var kind = RequestKind(name: R.requestName, mayLast: isStream, lane: lane ?? R.lane)
        port.setKind(kind, ofRequests: known.id)
        if takesNetwork {
            kind.name += " from the network"
            kind.placesOf = known.id
            port.setKind(kind, ofRequests: known.networkID)
        }
        if let former {
            preconditionFailure(
                former.request.name == R.requestName
                    ? "\(R.requestName) has a handler already"
                    : "\(R.requestName) and \(former.request.name) have one id: give one of them another requestName")
        }
    }
}

extension MessagePortRequest {
    fileprivate func decode<R: NamedRequest>(_ type: R.Type, with coder: any MessageCoder) throws -> R {
        do {
            return try coder.decode(type, from: message)
        } catch {
            throw RequestFailure(fault: "the request is no \(R.requestName): \(error); \(DecodingError.remedy)")
        }
    }
}
