import CCoreFoundationPorts
@preconcurrency import CoreFoundation
import Glibc
import RunLoopLocks
import RunLoops

/// The content of a CFFileDescriptor.
final class FileDescriptorBody: ObjectBody, @unchecked Sendable {
    // Sound: CoreFoundation's objects may be used on any thread, and what changes is behind the lock.
    private struct State {
        /// Nil after the end.
        var readiness: OneShotReadiness?
        /// The callbacks that the program has enabled, also before there is a source.
        var enabled: RunLoopReadiness = []
    }

    /// Set once, before others can see the body. Nil for a body whose instance is ending.
    nonisolated(unsafe) weak var instance: CFFileDescriptor?
    let info: ContextInfo
    private let callBack: CFFileDescriptorCallBack?
    private let descriptor: Int32
    private let closesOnInvalidation: Bool
    private let state: Lock<State>
    private let source = ObjectSource()

    static let objects = ObjectClass<FileDescriptorBody>("CFFileDescriptor")

    /// Nil when the descriptor is not open, or no descriptor is left.
    init?(
        _ descriptor: Int32, closes: Bool, _ callBack: CFFileDescriptorCallBack?, _ info: @autoclosure () -> ContextInfo
    ) {
        guard let readiness = OneShotReadiness(descriptor) else { return nil }
        (self.descriptor, closesOnInvalidation, self.callBack) = (descriptor, closes, callBack)
        self.info = info()
        state = Lock(State(readiness: readiness))
    }

    var isValid: Bool { state.withLock { $0.readiness != nil } }

    /// The descriptor, until the end; then -1.
    var native: Int32 { isValid ? descriptor : -1 }

    func enable(_ interest: RunLoopReadiness, _ isEnabled: Bool) {
        state.withLock { state in
            state.enabled = isEnabled ? state.enabled.union(interest) : state.enabled.subtracting(interest)
            state.readiness?.arm(state.enabled)
        }
    }

    func makeSource(_ instance: CFFileDescriptor, order: Int) -> CFRunLoopSource? {
        guard let readiness = state.withLock({ $0.readiness }) else { return nil }
        let made = source.source {
            .make(readiness.descriptor, order: order) { withExtendedLifetime(instance) { self.perform() } }
        }
        // Another thread may have ended the object meanwhile.
        if !isValid { source.invalidate() }
        return made
    }

    private func perform() {
        let ready: RunLoopReadiness = state.withLock { state in
            let ready = state.readiness?.take().intersection(state.enabled) ?? []
            state.enabled.subtract(ready)
            // The kernel has disarmed the others, too.
            state.readiness?.arm(state.enabled)
            return ready
        }
        guard !ready.isEmpty, let instance else { return }
        info.use { callBack?(instance, ready.callBackTypes, $0) }
    }

    func invalidate(_ instance: CFFileDescriptor) {
        let readiness = state.withLock { state in
            defer { state = State() }
            return state.readiness
        }
        guard let readiness else { return }
        source.invalidate()
        readiness.end()
        if closesOnInvalidation { close(descriptor) }
        info.end()
    }

    func description(of instance: CFFileDescriptor) -> String {
        "<CFFileDescriptor \(Unmanaged.passUnretained(instance).toOpaque())>{valid = \(isValid ? "Yes" : "No"), "
            + "fd = \(native), \(info.description(calling: callBack))}"
    }
}

extension CFFileDescriptor {
    var body: FileDescriptorBody { FileDescriptorBody.objects.body(of: self) }
}

extension RunLoopReadiness {
    init(callBackTypes: CFOptionFlags) {
        self = []
        if callBackTypes & CFOptionFlags(kCFFileDescriptorReadCallBack) != 0 { insert(.readable) }
        if callBackTypes & CFOptionFlags(kCFFileDescriptorWriteCallBack) != 0 { insert(.writable) }
    }

    fileprivate var callBackTypes: CFOptionFlags {
        (contains(.readable) ? CFOptionFlags(kCFFileDescriptorReadCallBack) : 0)
            | (contains(.writable) ? CFOptionFlags(kCFFileDescriptorWriteCallBack) : 0)
    }
}
