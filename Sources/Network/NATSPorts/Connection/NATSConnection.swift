import Dispatch
import Ports
import RunLoops
import TypedPorts

/// A connection with NATS, on which servers serve and clients ask. One is enough for a program.
///
/// NATS connects again when the connection is lost, also with another server of its cluster. When a server refuses the program
/// twice in a row then, the connection ends for good: see ``NATSError/refused(url:identity:reason:)``. Any thread may call all
/// methods.
public final class NATSConnection: Sendable, CustomStringConvertible {
    /// The servers, without users and passwords.
    public let url: String

    let handle: NATSHandle
    let asked: AskedRequests
    let runtime = PortRuntime.shared
    private let inbox: NATSHandle.Subscription
    private let news: ConnectionNews

    /// Connects. The task is suspended until a server has accepted the program.
    /// - Parameters:
    ///   - urls: The servers: `nats://host:4222` or `tls://host:4222`, and several of one cluster with commas between
    ///     them.
    ///   - options: How the program proves who it is, and encryption.
    /// - Throws: ``NATSError``: `unprotected` for a server on another machine without encryption or authentication,
    ///   unless the options allow it; `badURL`, `cannotConnect`.
    #if !NATS
        @available(
            *, unavailable, message: "add the trait “NATS” to the dependency on swift-ports, and install libnats"
        )
    #endif
    public nonisolated(nonsending) convenience init(
        _ urls: String, options: NATSOptions = NATSOptions()
    ) async throws(NATSError) {
        let made: Result<Parts, NATSError> = await withCheckedContinuation { continuation in
            // The call of libnats blocks.
            DispatchQueue.global().async { continuation.resume(returning: Parts.result(urls, options)) }
        }
        try self.init(made.get())
    }

    /// Connects. Blocks until a server has accepted the program.
    /// - Throws: ``NATSError``, as the form for tasks.
    #if !NATS
        @available(
            *, unavailable, message: "add the trait “NATS” to the dependency on swift-ports, and install libnats"
        )
    #endif
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public convenience init(_ urls: String, options: NATSOptions = NATSOptions()) throws(NATSError) {
        try self.init(Parts(urls, options))
    }

    private init(_ parts: Parts) {
        (url, handle, asked, inbox, news) = (parts.url, parts.handle, parts.asked, parts.inbox, parts.news)
    }

    deinit { close() }

    /// The parts of a connection.
    private struct Parts: Sendable {
        let url: String
        let handle: NATSHandle
        let asked: AskedRequests
        let inbox: NATSHandle.Subscription
        let news: ConnectionNews

        static func result(_ urls: String, _ options: NATSOptions) -> Result<Parts, NATSError> {
            Result { () throws(NATSError) in try Parts(urls, options) }
        }

        init(_ urls: String, _ options: NATSOptions) throws(NATSError) {
            var servers: [ServerURL] = []
            for text in urls.split(separator: ",", omittingEmptySubsequences: false) {
                servers.append(try ServerURL(String(text)))
            }
            let isEncrypted = options.tls != nil || servers.contains(where: \.isTLS)
            var isProtected = true
            for server in servers {
                let isKnown =
                    options.authentication != nil || server.hasUser || options.tls?.certificateFile != nil
                if isEncrypted && isKnown { continue }
                isProtected = false
                if !server.isLoopback && !options.allowsUnprotected { throw .unprotected(url: server.text) }
            }
            url = servers.map(\.text).joined(separator: ",")
            let (url, identity) = (url, options.identity(servers))
            let news = ConnectionNews(url)
            let asked = AskedRequests(prefix: "\(options.inboxPrefix).\(randomName()).")
            (self.news, self.asked) = (news, asked)
            handle = try NATSHandle(
                servers, options, isProtected: isProtected,
                .init(
                    isConnected: { news.set(isConnected: $0) },
                    isClosed: { refusal in
                        news.close(refusal.map { .refused(url: url, identity: identity, reason: $0) })
                    },
                    failed: {
                        news.note($0)
                        asked.noteFailure($0)
                    }))
            inbox = try handle.subscribe("\(asked.prefix)*", url: url) { asked.receive($0) }
        }
    }

    /// The URL.
    public var description: String { url }

    /// Whether there is a connection with a server at the moment.
    public var isConnected: Bool { handle.isConnected }

    /// The largest message that the server of NATS takes, in bytes. The name of the request's type and a few more bytes
    /// count.
    public var messageLimit: Int { handle.messageLimit }

    /// Ends the connection. Servers on it end, and requests fail. Call `finish(timeout:)` of
    /// the servers first, so that they answer what they have taken.
    public func close() {
        news.isClosing.set(())
        handle.close()
    }

    /// The server of NATS that the connection leads to, without a user and a password.
    var relay: String { handle.relay ?? url }

    // MARK: State

    /// Suspends until there is a connection.
    /// - Returns: False when the deadline came first.
    /// - Throws: `NATSError`: `closed`, or `refused` when NATS lets the program in no more. `CancellationError`.
    nonisolated(nonsending) func isConnected(before deadline: ContinuousClock.Instant) async throws -> Bool {
        if handle.isConnected { return true }
        while !news.isClosed.isSet {
            // The news may be late.
            if handle.isConnected { return true }
            guard await news.isConnected.wait(until: min(deadline, .now + .milliseconds(100))) else {
                try Task.checkCancellation()
                if deadline <= .now { return false }
                continue
            }
            if !handle.isConnected { try await Task.sleep(for: .milliseconds(10)) }
        }
        throw news.end
    }

    /// Set when the connection is closed for good: why.
    var isClosed: OneShot<NATSError> { news.isClosed }

    /// Why it is closed.
    var end: NATSError { news.end }

    /// Calls a handler with each message to a subject: see `NATSHandle.subscribe`.
    /// - Throws: ``end``.
    func subscribe(
        _ subject: String, queue: String? = nil, _ handler: @escaping NATSHandle.Handler
    ) throws(NATSError) -> NATSHandle.Subscription {
        do {
            return try handle.subscribe(subject, queue: queue, url: url, handler)
        } catch {
            throw isClosed.isSet ? end : error
        }
    }

    /// Waits until NATS has what was published.
    nonisolated(nonsending) func flush() async {
        let handle = handle
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                handle.flush(.seconds(1))
                continuation.resume()
            }
        }
    }

    // MARK: Requests

    func add(_ request: some Asked, control: String, deadline: ContinuousClock.Instant?) -> UInt64 {
        asked.add(request, control: control, deadline: deadline) { [weak self] frame, subject in
            _ = self?.handle.publish(frame, to: subject)
        }
    }

    /// Tells the server that nobody waits for the request any more.
    func release(_ number: UInt64) {
        guard let subject = asked.remove(number) else { return }
        _ = handle.publish(Frame(Question.release([asked.subject(of: number)])).bytes, to: subject)
    }

    /// Tells the server of a stream how many frames were taken.
    func tellTaken(_ taken: UInt32, of number: UInt64) {
        guard let holder = asked.holder(of: number) else { return }
        let question = Question.hold(asker: asked.prefix, wantsAnswer: false, taken: [number: taken])
        _ = handle.publish(Frame(question).bytes, to: holder)
    }
}

/// The state of a connection, as libnats tells it.
private final class ConnectionNews: Sendable {
    let isConnected = Gate()
    let isClosed = OneShot<NATSError>()
    /// Set when the program closes the connection.
    let isClosing = OneShot<Void>()
    private let url: String

    init(_ url: String) {
        self.url = url
        isConnected.open()
    }

    /// Why the connection is closed.
    var end: NATSError { isClosed.value ?? .closed(url: url) }

    func set(isConnected value: Bool) {
        if value {
            isConnected.open()
            log.warning("NATS: \(url) is connected again")
        } else if !isClosing.isSet {
            isConnected.close()
            log.warning("NATS: the connection to \(url) is lost")
        }
    }

    /// - Parameter cause: Why NATS has closed the connection; nil when the program has.
    func close(_ cause: NATSError?) {
        isClosed.set(isClosing.isSet ? .closed(url: url) : cause ?? .closed(url: url))
        isConnected.open()
    }

    func note(_ failure: String) { log.warning(once: "nats \(failure)", "NATS: \(url): \(failure)") }
}

/// A name that nobody else has.
func randomName() -> String {
    let digits = String(UInt128.random(in: 0 ... .max), radix: 36)
    return String(repeating: "0", count: max(0, 25 - digits.count)) + digits
}
