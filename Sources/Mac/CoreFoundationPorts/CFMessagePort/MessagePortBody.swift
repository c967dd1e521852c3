@preconcurrency import CoreFoundation
import Dispatch
import Ports
import RunLoopLocks
import RunLoops

/// The content of a CFMessagePort: a port of this process with its callout, or a right to a port of any process.
final class MessagePortBody: ObjectBody, @unchecked Sendable {
    // Sound: CoreFoundation's objects may be used on any thread, and what changes is behind the lock.
    enum Port {
        case local(LocalMessagePort, MessagePortCallout)
        case remote(RemoteMessagePort)

        var isValid: Bool {
            switch self {
            case .local(let port, _): port.isValid
            case .remote(let port): port.isValid
            }
        }
    }

    struct State {
        var isValid = true
        var name: CFString?
        var callBack: CFMessagePortInvalidationCallBack?
        /// A dispatch queue keeps its port, as a run loop does.
        var keptByQueue: CFMessagePort?
        /// Whether the program has invalidated a remote port. The end of the port's owner does not end requests: their
        /// replies may be on the way.
        var endsRequests = false
        /// These closures wake the threads that wait for replies.
        var waiters: [ObjectIdentifier: @Sendable () -> Void] = [:]
    }

    let port: Port
    let state: Lock<State>
    /// Set once, before others can see the body. Nil for a body whose instance is ending.
    nonisolated(unsafe) weak var instance: CFMessagePort?
    let source = ObjectSource()
    /// Open once the name is free.
    let hasEnded = Latch()

    /// Threads of their own call the callbacks of remote ports: the library's must not wait.
    private static let invalidations = DispatchQueue(label: "CFMessagePort invalidations")

    init(_ port: Port, name: CFString?) {
        self.port = port
        state = Lock(State(name: name))
        switch port {
        case .local(let port, _): port.onInvalidation { [weak self] in self?.invalidateInstance() }
        case .remote(let remote):
            remote.onInvalidation { [weak self] in
                guard let self else { return }
                Self.invalidations.async { self.invalidateInstance() }
            }
        }
    }

    /// Whether the port can be used; if not, its callback has been called.
    func isValid(_ instance: CFMessagePort) -> Bool {
        guard state.withLock({ $0.isValid }) else { return false }
        if port.isValid { return true }
        end(instance)
        return false
    }

    private func invalidateInstance() {
        if let instance { end(instance) }
    }

    /// Ends the port, as the program wishes.
    func invalidate(_ instance: CFMessagePort) {
        let waiters = state.withLock { state in
            state.endsRequests = isRemote
            return isRemote ? state.waiters.values.map(\.self) : []
        }
        end(instance)
        for wake in waiters { wake() }
    }

    /// Ends the port, with its callback on this thread. The call does not wait for callouts.
    private func end(_ instance: CFMessagePort) {
        let ended: State? = state.withLock { state in
            guard state.isValid else { return nil }
            defer { (state.isValid, state.keptByQueue) = (false, nil) }
            return state
        }
        guard let ended else { return }
        if case .local(let port, _) = port { port.invalidateAtOnce() }
        names.remove(ended.name, self)
        hasEnded.open()
        switch port {
        case .local(_, let callout): callout.info.end { info in ended.callBack?(instance, info) }
        case .remote: ended.callBack?(instance, nil)
        }
        source.invalidate()
    }

    /// The names of ports of this kind.
    var names: MessagePortNames { if case .local = port { .local } else { .remote } }

    var info: UnsafeMutableRawPointer? {
        if case .local(_, let callout) = port { callout.info.context.info } else { nil }
    }

    func setCallBack(_ callBack: CFMessagePortInvalidationCallBack?, _ instance: CFMessagePort) {
        let isLate = state.withLock { state in
            if state.isValid || callBack == nil { state.callBack = callBack }
            return !state.isValid
        }
        if isLate { callBack?(instance, info) }
    }

    func description(of instance: CFMessagePort) -> String {
        let (isValid, name) = state.withLock { ($0.isValid, $0.name) }
        var text = "<CFMessagePort \(Unmanaged.passUnretained(instance).toOpaque())>{"
        text += "valid = \(isValid ? "Yes" : "No"), "
        text += "remote = \(isRemote ? "Yes" : "No"), name = \(name.map(String.init(_:)) ?? "(null)")"
        if case .local(_, let callout) = port { text += ", \(callout.description)" }
        return text + "}"
    }

    var isRemote: Bool { if case .remote = port { true } else { false } }

    static let objects = ObjectClass<MessagePortBody>("CFMessagePort")
}

extension CFMessagePort {
    var body: MessagePortBody { MessagePortBody.objects.body(of: self) }
}
