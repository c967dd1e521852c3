import RunLoopLocks
import RunLoops

#if NATS
    internal import CNATS
    import Glibc
#endif

/// A message of NATS.
struct Delivery: Sendable {
    let subject: String
    let reply: String?
    /// Whether the server says that nobody subscribes to the subject of a request.
    let hasNoResponders: Bool
    let bytes: [UInt8]
}

// Both forms of a handle have these.
extension NATSHandle {
    /// The news of a connection. Each is called on a thread of libnats.
    struct Events: Sendable {
        let isConnected: @Sendable (Bool) -> Void
        /// With the reason of the server when it lets the program in no more.
        let isClosed: @Sendable (_ refusal: String?) -> Void
        let failed: @Sendable (String) -> Void
    }

    /// The outcome of an attempt to publish.
    enum Published {
        case sent
        /// Certainly not sent: there is no connection.
        case unsent
        /// The connection broke. The message may have left.
        case unclear
    }

    typealias Handler = @Sendable (Delivery) -> Void
}

extension NATSOptions {
    /// The program's identity in an error, without secrets.
    func identity(_ urls: [ServerURL]) -> String {
        switch authentication {
        case .user(let name, _)?: "the user “\(name)”"
        case .token?: "the token"
        case .nkey(let key, _)?: "the nkey \(key)"
        case .credentials(let file)?: "the credentials of \(file)"
        case nil: urls.lazy.compactMap(\.identity).first ?? "a program that does not say who it is"
        }
    }
}

#if NATS
    extension Delivery {
        fileprivate init(_ message: OpaquePointer) {
            subject = natsMsg_GetSubject(message).map { String(cString: $0) } ?? ""
            reply = natsMsg_GetReply(message).map { String(cString: $0) }
            hasNoResponders = natsMsg_IsNoResponders(message)
            bytes = Array(
                UnsafeRawBufferPointer(
                    start: natsMsg_GetData(message), count: Int(max(0, natsMsg_GetDataLength(message)))))
        }
    }

    /// A connection of libnats. Nothing else calls libnats.
    final class NATSHandle: @unchecked Sendable {
        // Sound: libnats locks its connection, and the pointer never changes.
        private let connection: OpaquePointer
        private let knownRelay = Lock(Relay())

        /// The last server that the connection led to. Each request asks for its URL.
        private struct Relay {
            var full = ""
            var url: String?
        }

        /// Blocks until the connection is made, or cannot be made.
        init(_ urls: [ServerURL], _ options: NATSOptions, isProtected: Bool, _ events: Events) throws(NATSError) {
            let text = urls.map(\.text).joined(separator: ",")
            var made: OpaquePointer?
            try Self.check(natsOptions_Create(&made), text)
            defer { natsOptions_Destroy(made) }
            let box = Unmanaged.passRetained(Box(events))
            var status = Self.set(made, urls, options, isProtected: isProtected, box)
            var connection: OpaquePointer?
            if status == NATS_OK { status = natsConnection_Connect(&connection, made) }
            guard status == NATS_OK, let connection else {
                let reason = Self.reason(status)
                box.release()
                if status == NATS_CONNECTION_AUTH_FAILED {
                    throw .refused(url: text, identity: options.identity(urls), reason: reason)
                }
                throw .cannotConnect(url: text, reason: reason + Self.remedy(status, reason, options))
            }
            self.connection = connection
        }

        deinit { natsConnection_Destroy(connection) }

        private final class Box<Value: Sendable>: Sendable {
            let value: Value
            init(_ value: Value) { self.value = value }
        }

        private static func check(_ status: natsStatus, _ url: String) throws(NATSError) {
            if status != NATS_OK {
                throw .cannotConnect(url: url, reason: String(cString: natsStatus_GetText(status)))
            }
        }

        /// Sets all options, until one is refused.
        private static func set(
            _ made: OpaquePointer?, _ urls: [ServerURL], _ options: NATSOptions, isProtected: Bool,
            _ box: Unmanaged<Box<Events>>
        ) -> natsStatus {
            let closure = box.toOpaque()
            var steps: [() -> natsStatus] = [
                { withStrings(urls.map(\.full)) { natsOptions_SetServers(made, $0, Int32(urls.count)) } },
                { natsOptions_SetTimeout(made, options.connectTimeout.milliseconds) },
                // NATS goes on trying for as long as the program lives.
                { natsOptions_SetMaxReconnect(made, -1) },
                { natsOptions_SetReconnectWait(made, 250) },
                // A lost connection is noticed within four seconds also when nothing is sent.
                { natsOptions_SetPingInterval(made, 2000) },
                { natsOptions_SetMaxPingsOut(made, 2) },
                { natsOptions_SetSendAsap(made, true) },
                // A frame of a stream's elements has a little more than 32 KiB, and leaves in one call of the kernel.
                { natsOptions_SetIOBufSize(made, 128 << 10) },
                // Without a connection, a publication fails, and its asker decides.
                { natsOptions_SetReconnectBufSize(made, 1) },
                // Servers that the cluster names may be on other machines.
                { natsOptions_SetIgnoreDiscoveredServers(made, !isProtected && !options.allowsUnprotected) },
                {
                    natsOptions_SetDisconnectedCB(
                        made,
                        { _, closure in
                            guard let closure else { return }
                            Unmanaged<Box<Events>>.fromOpaque(closure).takeUnretainedValue().value.isConnected(false)
                        }, closure)
                },
                {
                    natsOptions_SetReconnectedCB(
                        made,
                        { _, closure in
                            guard let closure else { return }
                            Unmanaged<Box<Events>>.fromOpaque(closure).takeUnretainedValue().value.isConnected(true)
                        }, closure)
                },
                {
                    natsOptions_SetErrorHandler(
                        made,
                        { _, _, status, closure in
                            guard let closure else { return }
                            let text = NATSHandle.reason(status)
                            Unmanaged<Box<Events>>.fromOpaque(closure).takeUnretainedValue().value.failed(text)
                        }, closure)
                },
                {
                    natsOptions_SetClosedCB(
                        made,
                        { connection, closure in
                            guard let closure else { return }
                            var text: UnsafePointer<CChar>?
                            let status = natsConnection_GetLastError(connection, &text)
                            let reason = text.map { String(cString: $0) } ?? ""
                            // The last call of all.
                            let events = Unmanaged<Box<Events>>.fromOpaque(closure).takeRetainedValue().value
                            events.isClosed(status == NATS_CONNECTION_AUTH_FAILED ? reason : nil)
                        }, closure)
                },
            ]
            if let name = options.name { steps.append { natsOptions_SetName(made, name) } }
            switch options.authentication {
            case .user(let user, let password)?: steps.append { natsOptions_SetUserInfo(made, user, password) }
            case .token(let token)?: steps.append { natsOptions_SetToken(made, token) }
            case .nkey(let key, let seedFile)?: steps.append { natsOptions_SetNKeyFromSeed(made, key, seedFile) }
            case .credentials(let file)?:
                steps.append { natsOptions_SetUserCredentialsFromFiles(made, file, nil) }
            case nil: break
            }
            if options.tls != nil || urls.contains(where: \.isTLS) {
                let tls = options.tls ?? .init()
                steps.append { natsOptions_SetSecure(made, true) }
                steps.append { natsOptions_SkipServerVerification(made, false) }
                if let file = tls.authoritiesFile {
                    steps.append { natsOptions_LoadCATrustedCertificates(made, file) }
                }
                if let file = tls.certificateFile {
                    steps.append { natsOptions_LoadCertificatesChain(made, file, tls.keyFile ?? file) }
                }
            }
            for step in steps {
                let status = step()
                if status != NATS_OK { return status }
            }
            return NATS_OK
        }

        /// The last error of this thread, in the words of libnats without the place in its source.
        private static func reason(_ status: natsStatus) -> String {
            let text = String(cString: nats_GetLastError(nil) ?? natsStatus_GetText(status))
            let start = text.hasPrefix("(") ? text.firstRange(of: "): ")?.upperBound : nil
            let words = text[(start ?? text.startIndex)...]
            // OpenSSL had nothing to add.
            return String(words.hasSuffix(": (null)") ? words.dropLast(8) : words)
        }

        /// The remedy for a connection that cannot be made; empty when the reason says it.
        private static func remedy(_ status: natsStatus, _ reason: String, _ options: NATSOptions) -> String {
            switch status {
            case NATS_INVALID_ARG: ": is the name of a file in the options empty?"
            case NATS_NO_SERVER: ": start a server there, or correct the URL"
            case NATS_SSL_ERROR where reason.contains("handshake"):
                ": the server's certificate has to be from an authority of TLS.authoritiesFile, and to name the URL's host"
            case NATS_PROTOCOL_ERROR where reason.contains("got ''") && options.tls?.certificateFile == nil:
                ": the server has ended the connection; if it asks for a certificate, name one in TLS.certificateFile"
            case NATS_SECURE_CONNECTION_REQUIRED: ": write tls:// in the URL"
            case NATS_SECURE_CONNECTION_WANTED: ": the server has no TLS, so write nats:// in the URL"
            default: ""
            }
        }

        private static func withStrings<Result>(
            _ strings: [String], _ body: (UnsafeMutablePointer<UnsafePointer<CChar>?>) -> Result
        ) -> Result {
            let copies = strings.map { UnsafePointer<CChar>(strdup($0)) }
            defer { for copy in copies { free(UnsafeMutablePointer(mutating: copy)) } }
            var pointers = copies
            return pointers.withUnsafeMutableBufferPointer { pointers in
                // There is at least one server.
                body(pointers.baseAddress.unsafelyUnwrapped)
            }
        }

        // MARK: State

        var isConnected: Bool { natsConnection_Status(connection) == NATS_CONN_STATUS_CONNECTED }

        /// The largest message that the server takes, in bytes.
        var messageLimit: Int { Int(natsConnection_GetMaxPayload(connection)) }

        /// The server that the connection leads to, without a user and a password; nil while there is none.
        var relay: String? {
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 512) { buffer in
                guard let start = buffer.baseAddress,
                    natsConnection_GetConnectedUrl(connection, start, buffer.count) == NATS_OK
                else { return nil }
                return knownRelay.withLock { known in
                    if strcmp(known.full, start) != 0 {
                        let full = String(cString: start)
                        known = Relay(full: full, url: (try? ServerURL(full))?.text)
                    }
                    return known.url
                }
            }
        }

        /// Waits until the server has all that was published. Blocks.
        func flush(_ timeout: Duration) { natsConnection_FlushTimeout(connection, timeout.milliseconds) }

        /// Ends the connection.
        func close() { natsConnection_Close(connection) }

        // MARK: Messages

        func publish(_ bytes: [UInt8], to subject: String, reply: String? = nil) -> Published {
            let status = bytes.withUnsafeBytes { bytes in
                let (start, count) = (bytes.baseAddress, Int32(clamping: bytes.count))
                return if let reply {
                    natsConnection_PublishRequest(connection, subject, reply, start, count)
                } else {
                    natsConnection_Publish(connection, subject, start, count)
                }
            }
            return switch status {
            case NATS_OK: .sent
            case NATS_IO_ERROR, NATS_CONNECTION_DISCONNECTED, NATS_TIMEOUT, NATS_SSL_ERROR, NATS_STALE_CONNECTION:
                .unclear
            default: .unsent
            }
        }

        /// Publishes an answer that other clients of NATS, too, can read as an error of a service.
        func publish(_ bytes: [UInt8], to subject: String, error: String) {
            var message: OpaquePointer?
            let status = bytes.withUnsafeBytes {
                natsMsg_Create(
                    &message, subject, nil, $0.baseAddress?.assumingMemoryBound(to: CChar.self),
                    Int32(clamping: $0.count))
            }
            guard status == NATS_OK else { return }
            defer { natsMsg_Destroy(message) }
            natsMsgHeader_Set(message, "Nats-Service-Error", error)
            natsMsgHeader_Set(message, "Nats-Service-Error-Code", "400")
            natsConnection_PublishMsg(connection, message)
        }

        /// Calls a handler with each message to a subject, one after the other, on a thread of the subscription.
        /// - Parameter queue: Of the subscribers with one queue, each message goes to one.
        /// - Throws: `NATSError.closed`.
        func subscribe(
            _ subject: String, queue: String? = nil, url: String, _ handler: @escaping Handler
        ) throws(NATSError) -> Subscription {
            let box = Unmanaged.passRetained(Box(handler))
            let call: natsMsgHandler = { _, _, message, closure in
                defer { natsMsg_Destroy(message) }
                guard let message, let closure else { return }
                let handler = Unmanaged<Box<Handler>>.fromOpaque(closure).takeUnretainedValue().value
                handler(Delivery(message))
            }
            var made: OpaquePointer?
            let status =
                if let queue {
                    natsConnection_QueueSubscribe(&made, connection, subject, queue, call, box.toOpaque())
                } else {
                    natsConnection_Subscribe(&made, connection, subject, call, box.toOpaque())
                }
            guard status == NATS_OK, let made else {
                box.release()
                throw .closed(url: url)
            }
            // The handlers only pass messages on, so that none has to be dropped.
            natsSubscription_SetPendingLimits(made, -1, -1)
            let isDone = OneShot<Void>()
            natsSubscription_SetOnCompleteCB(
                made,
                { closure in
                    guard let closure else { return }
                    Unmanaged<Box<@Sendable () -> Void>>.fromOpaque(closure).takeRetainedValue().value()
                },
                Unmanaged.passRetained(
                    Box<@Sendable () -> Void> {
                        // No call of the handler follows.
                        box.release()
                        isDone.set(())
                    }
                ).toOpaque())
            return Subscription(made, isDone)
        }

        /// A subscription, until its release.
        final class Subscription: @unchecked Sendable {
            // Sound: libnats locks its subscription, and the pointer never changes.
            private let subscription: OpaquePointer
            /// Set after the last call of the handler.
            let isDone: OneShot<Void>

            fileprivate init(_ subscription: OpaquePointer, _ isDone: OneShot<Void>) {
                (self.subscription, self.isDone) = (subscription, isDone)
            }

            deinit { natsSubscription_Destroy(subscription) }

            /// Takes no further messages, and handles those that have come.
            func drain() { natsSubscription_Drain(subscription) }
        }
    }

    extension Duration {
        fileprivate var milliseconds: Int64 {
            let (seconds, attoseconds) = components
            return max(
                1, seconds.multipliedReportingOverflow(by: 1000).partialValue + attoseconds / 1_000_000_000_000_000)
        }
    }
#else
    /// Takes the place of libnats without the trait “NATS”. Nobody gets one, because no connection can be made.
    final class NATSHandle: Sendable {
        init(_ urls: [ServerURL], _ options: NATSOptions, isProtected: Bool, _ events: Events) throws(NATSError) {
            throw .cannotConnect(url: urls.map(\.text).joined(separator: ","), reason: "the trait “NATS” is off")
        }

        var isConnected: Bool { false }
        var messageLimit: Int { 0 }
        var relay: String? { nil }
        func flush(_ timeout: Duration) {}
        func close() {}
        func publish(_ bytes: [UInt8], to subject: String, reply: String? = nil) -> Published { .unsent }
        func publish(_ bytes: [UInt8], to subject: String, error: String) {}

        func subscribe(
            _ subject: String, queue: String? = nil, url: String, _ handler: @escaping Handler
        ) throws(NATSError) -> Subscription { throw .closed(url: url) }

        final class Subscription: Sendable {
            let isDone = OneShot<Void>()
            func drain() {}
        }
    }
#endif
