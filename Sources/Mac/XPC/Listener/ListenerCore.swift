import Activation
import Dispatch
import Ports
import RunLoopLocks
import TypedPorts

/// The state behind ``XPCListener``, which may be released before.
final class ListenerCore: Sendable {
    typealias SessionHandler =
        @Sendable (XPCListener.IncomingSessionRequest) -> XPCListener.IncomingSessionRequest.Decision

    private enum Phase {
        case inactive
        /// An active listener retains itself.
        case active(ListenerCore)
        case cancelled
    }

    private struct State {
        var phase = Phase.inactive
        var settings: ListenerSettings
        var port: LocalMessagePort?
        /// Set when an activator has started this process for the listener.
        var service: ActivatedService?
        /// The sessions that the listener has accepted, some of which have ended.
        var sessions: [Weak<SessionCore>] = []
    }

    private let handler: SessionHandler
    private let state: Lock<State>

    init(_ settings: ListenerSettings, _ handler: @escaping SessionHandler) {
        self.handler = handler
        state = Lock(State(settings: settings))
    }

    /// Makes the listener's port, at which requests for sessions wait until the listener is active.
    func makePort(name: String?, _ nameServer: PortNameServer) throws(PortError) -> MachPort.SendRight {
        let service: ActivatedService? = if let name { try LentPort.service(name, nameServer) } else { nil }
        let port: LocalMessagePort
        if let service {
            port = service.port
            port.setHandler(ofDelegate: { [weak self] () -> LocalMessagePort.RequestHandler? in
                guard let self else { return nil }
                return { self.received($0) }
            })
        } else {
            port = try LocalMessagePort(name: name, nameServer: nameServer) { [weak self] in self?.received($0) }
        }
        SessionMessage.describe(at: port)
        state.withLock { ($0.port, $0.service) = (port, service) }
        return port.sendRight
    }

    func setTargetQueue(_ queue: DispatchQueue) { state.withLock { $0.settings.targetQueue = queue } }
    func setRequirement(_ requirement: XPCPeerRequirement) { state.withLock { $0.settings.requirement = requirement } }

    /// - Parameter make: Makes the observer of further sessions. Gets the listener's name; nil for none.
    func setObserver(_ make: (String?) -> any SessionObserver) {
        let observer = make(state.withLock { $0.port?.name })
        // A former one is released after the lock.
        let former = state.withLock { exchange(&$0.settings.observer, with: observer) }
        withExtendedLifetime(former) {}
    }

    func activate() throws(XPCRichError) {
        let (port, service, target) = try state.withLock { (state) throws(XPCRichError) in
            switch state.phase {
            case .inactive: break
            case .active: throw XPCRichError("the listener is active already")
            case .cancelled: throw XPCRichError("the listener was cancelled")
            }
            state.phase = .active(self)
            return (state.port, state.service, state.settings.targetQueue)
        }
        do throws(PortError) {
            // Before the first message, which may be the one that the service dies of.
            if let service { try LentPort.ready(service) }
            let label = ["XPC listener", port?.name].compactMap(\.self).joined(separator: " ")
            try port?.setQueue(DispatchQueue(label: label, target: target))
            if let service { LentPort.endWhenIdle(service) { [weak self] in self?.hasSessions ?? false } }
        } catch {
            cancel()
            throw XPCRichError(error)
        }
    }

    func cancel() {
        // An active listener may release its last reference here.
        let (port, former) = state.withLock { state in
            let former = (state.port, (state.phase, state.service))
            (state.port, state.service, state.phase) = (nil, nil, .cancelled)
            return former
        }
        port?.invalidateAtOnce()
        withExtendedLifetime(former) {}
    }

    /// Whether a session that the listener has accepted has not ended.
    private var hasSessions: Bool { sessions.contains { !$0.hasEnded } }

    private var sessions: [SessionCore] { state.withLock { $0.sessions }.compactMap(\.object) }

    private func add(_ session: SessionCore) {
        let open = sessions.filter { !$0.hasEnded } + [session]
        state.withLock { $0.sessions = open.map { Weak($0) } }
    }

    // MARK: Requests for sessions

    private func received(_ request: MessagePortRequest) {
        guard let replyRight = request.replyRight else { return }
        do {
            guard request.id == SessionMessage.hello.rawValue else {
                return try replyRight.fail(with: RequestFailure("a listener takes only requests for sessions"))
            }
            try replyRight.reply(with: CBORCoder().message(welcome(to: request)))
        } catch {
            replyRight.noteUnsent(error)
        }
    }

    private func welcome(to request: MessagePortRequest) throws -> Welcome {
        let settings = state.withLock { $0.settings }
        let sender = request.message.sender
        if let refusal = settings.requirement?.refusal(of: sender) {
            log.warning("a listener refuses a session of process \(sender?.pid ?? 0): \(refusal)")
            return Welcome(refusal: refusal)
        }
        let hello: Hello
        do { hello = try CBORCoder().decode(Hello.self, from: request.message) } catch {
            return Welcome(refusal: XPCRichError("the request for a session cannot be decoded: \(error)"))
        }
        guard hello.version == Hello.currentVersion else {
            return Welcome(
                refusal: XPCRichError(
                    "the client's sessions have version \(hello.version), and the listener's \(Hello.currentVersion)"))
        }
        let peer = sender.map { "the client in process \($0.pid)" } ?? "a client"
        switch handler(XPCListener.IncomingSessionRequest(peer: peer, settings)).session {
        case .failure(let error): return Welcome(refusal: error)
        case .success(let session):
            do {
                let welcome = Welcome(session: try session.accept(hello.session))
                add(session.core)
                return welcome
            } catch {
                return Welcome(refusal: XPCRichError(error))
            }
        }
    }
}
