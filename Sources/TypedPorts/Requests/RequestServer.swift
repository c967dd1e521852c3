import Ports
import Synchronization

/// Answers typed requests in tasks.
///
///     let server = try RequestServer(name: "com.example.dictionary")
///     server.handle(Lookup.self) { lookup in dictionary[lookup.word] }
///     server.handle(Words.self) { words in dictionary.keys(from: words.prefix) }
///     await server.run()
///
/// Requests wait at the port until the server runs. Any thread may call all methods.
public final class RequestServer: Sendable {
    /// The port that takes the requests.
    public let port: LocalMessagePort

    typealias Handler = @Sendable (MessagePortRequest) async throws -> MachPort.Message

    let coder: any MessageCoder
    private let handlers = Mutex<[UInt32: (name: String, call: Handler)]>([:])

    /// Makes a server for requests to a port of its own, with a name or without.
    /// - Throws: `PortError`, as `PortNameServer.register`.
    public convenience init(
        name: String? = nil, nameServer: PortNameServer = .shared, coder: any MessageCoder = CBORCoder()
    ) throws(PortError) {
        self.init(try LocalMessagePort(name: name, nameServer: nameServer), coder: coder)
    }

    /// Makes a server for requests to a port, which must have no handler of its own.
    public init(_ port: LocalMessagePort, coder: any MessageCoder = CBORCoder()) {
        self.port = port
        self.coder = coder
    }

    /// Has a handler answer the requests of a type. An asker that gives up cancels the handler's task. The asker gets what
    /// the handler throws: the request's `Failure` as it is, another error as `RequestFailure` with its description.
    /// Each type, and each name of a request, has one handler.
    public func handle<R: PortRequest>(
        _ type: R.Type = R.self, _ handler: @escaping @Sendable (R) async throws -> R.Reply
    ) {
        handle(type) { request, _ in try await handler(request) }
    }

    /// As the form without the message port's request, which tells the sender.
    public func handle<R: PortRequest>(
        _ type: R.Type = R.self, _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> R.Reply
    ) {
        add(type) { [coder] request, message in try coder.message(await handler(request, message)) }
    }

    /// Calls the handlers, each in a task of its own, until the port is invalid or the calling task is cancelled, and
    /// returns when all handlers have returned. To end with all answered that was taken, call ``finish(before:)``.
    /// - Parameter limit: The handlers at a time. When so many run, further requests wait at the port (back-pressure).
    public func run(atMost limit: Int = 100) async {
        await port.serveMessages(atMost: limit) { request in
            guard let handler = self.handlers.withLock({ $0[request.id] }) else {
                throw RequestFailure("this server has no handler for requests of the id \(request.id)")
            }
            return try await handler.call(request)
        }
    }

    /// Ends the server after the requests that were taken, as `LocalMessagePort.finish`. ``run(atMost:)`` returns then.
    /// - Returns: False when the deadline or the task's cancellation came first.
    @discardableResult
    public nonisolated(nonsending) func finish(before deadline: ContinuousClock.Instant? = nil) async -> Bool {
        await port.finish(before: deadline)
    }

    func add<R: NamedRequest>(
        _ type: R.Type, _ handler: @escaping @Sendable (R, MessagePortRequest) async throws -> MachPort.Message
    ) {
        let coder = coder
        let former = handlers.withLock { handlers in
            handlers.updateValue(
                (
                    R.requestName,
                    { message in
                        let request = try message.decode(R.self, with: coder)
                        do { return try await handler(request, message) } catch let error as R.Failure {
                            throw RequestFailure(error, coder)
                        }
                    }
                ), forKey: R.messageID)
        }
        precondition(
            former == nil,
            "\(R.requestName) and \(former?.name ?? "") are requests of one id: give one another requestName")
    }
}

extension MessagePortRequest {
    fileprivate func decode<R: NamedRequest>(_ type: R.Type, with coder: any MessageCoder) throws -> R {
        do {
            return try coder.decode(type, from: message)
        } catch {
            throw RequestFailure("the request is no \(R.requestName): \(error)")
        }
    }
}
