import CCoreFoundationPorts
@preconcurrency import CoreFoundation
import Dispatch
import Ports
import RunLoopLocks
import RunLoops

/// The content of a CFMachPort: a port's number, and the callback for the port's messages.
final class MachPortBody: ObjectBody, @unchecked Sendable {
    // Sound: CoreFoundation's objects may be used on any thread, and what changes is behind the lock.
    private struct State {
        var isValid = true
        var callBack: CFMachPortInvalidationCallBack?
        var watch: InvalidationWatch?
    }

    /// Set once, before others can see the body. Nil for a body whose instance is ending.
    nonisolated(unsafe) weak var instance: CFMachPort?
    let number: UInt32
    let info: ContextInfo
    private let callBack: CFMachPortCallBack?
    /// Nil when this process cannot receive from the port.
    private let receiver: MachPort?
    /// Whether the port was made for this object, and ends with it.
    private let ownsReceiver: Bool
    private let state = Lock(State())
    private let source = ObjectSource()

    static let objects = ObjectClass<MachPortBody>("CFMachPort")

    /// The valid objects by the numbers of their ports: one for each.
    private static let all = Lock<[UInt32: MachPortBody]>([:])

    private static let invalidations = DispatchQueue(label: "CFMachPort invalidations")

    /// The object of a port: a new one, or the one that was made before. Nil when the number names no port.
    static func make(
        _ allocator: CFAllocator?, _ number: UInt32, ownsReceiver: Bool, _ callBack: CFMachPortCallBack?,
        _ info: () -> ContextInfo
    ) -> (port: CFMachPort, isNew: Bool)? {
        if let existing = existing(number) { return (existing, false) }
        guard let right = PortNumbers.shared.right(number) else { return nil }
        let body = MachPortBody(PortNumbers.shared.retain(right), ownsReceiver, callBack, info())
        guard let instance = objects.makeInstance(allocator, body) else { return nil }
        // Another thread may have been faster.
        let (known, former): (CFMachPort?, MachPortBody?) = all.withLock { all in
            if let present = all[number], let instance = present.instance, present.isValid { return (instance, nil) }
            return (nil, all.updateValue(body, forKey: number))
        }
        withExtendedLifetime(former) {}
        if let known {
            body.discard()
            return (known, false)
        }
        body.receiver?.setHandler { [weak body] in body?.handle($0) }
        body.watch(right)
        return (instance, true)
    }

    private static func existing(_ number: UInt32) -> CFMachPort? {
        guard let body = all.withLock({ $0[number] }), body.isValid else { return nil }
        return body.instance
    }

    private init(_ number: UInt32, _ ownsReceiver: Bool, _ callBack: CFMachPortCallBack?, _ info: ContextInfo) {
        (self.number, self.ownsReceiver, self.callBack, self.info) = (number, ownsReceiver, callBack, info)
        receiver = PortNumbers.shared.receiver(number)
    }

    /// The end of the port ends the object.
    private func watch(_ right: MachPort.SendRight) {
        let watch = InvalidationWatch(right) { [weak self] in
            guard let self else { return }
            // The calling thread serves all peers, and must not wait for the program's callback.
            Self.invalidations.async { if let instance = self.instance { self.invalidate(instance) } }
        }
        let isLate = state.withLock { state in
            if state.isValid { state.watch = watch }
            return !state.isValid
        }
        if isLate { watch.cancel() }
        if !right.isValid { instance.map(invalidate) }
    }

    /// Ends a body that another thread's has forestalled.
    private func discard() {
        state.withLock { $0.isValid = false }
        info.end()
        PortNumbers.shared.change(number, by: -1)
    }

    var isValid: Bool { state.withLock { $0.isValid } }

    func makeSource(_ instance: CFMachPort, order: Int) -> CFRunLoopSource? {
        guard isValid else { return nil }
        let made = source.source {
            // Of a port that it cannot receive from, a program wants to know the end alone.
            guard let receiver else {
                guard let silent = try? EventDescriptor() else { return nil }
                return .make(silent.descriptor, order: order) { withExtendedLifetime((silent, instance)) {} }
            }
            let descriptor = logged("CFMachPortCreateRunLoopSource") { () throws(PortError) in
                try PortDescriptor(receiver)
            }
            guard let descriptor else { return nil }
            // One message in a run that returns after a source.
            return RunLoopPortSource(descriptor, order: order, atMost: 1, keeping: instance).source
        }
        // Another thread may have ended the object meanwhile.
        if !isValid { source.invalidate() }
        return made
    }

    private func handle(_ message: MachPort.Message) {
        guard isValid, let instance else { return }
        var received = MachMessage(message, to: number)
        received.bytes.withUnsafeMutableBytes { bytes in
            info.use { callBack?(instance, bytes.baseAddress, CFIndex(received.size), $0) }
        }
    }

    func invalidate(_ instance: CFMachPort) {
        let ended: State? = state.withLock { state in
            guard state.isValid else { return nil }
            defer { (state.isValid, state.watch) = (false, nil) }
            return state
        }
        guard let ended else { return }
        ended.watch?.cancel()
        // Released after the lock.
        let former = Self.all.withLock { $0[number] === self ? $0.removeValue(forKey: number) : nil }
        withExtendedLifetime(former) {}
        info.end { info in
            ended.callBack?(instance, info)
            source.invalidate()
        }
        receiver?.setHandler(nil)
        if ownsReceiver { PortNumbers.shared.takeReceiver(number)?.invalidate() }
        PortNumbers.shared.change(number, by: -1)
    }

    /// The invalidation callback.
    var invalidationCallBack: CFMachPortInvalidationCallBack? { state.withLock { $0.callBack } }

    func setCallBack(_ callBack: CFMachPortInvalidationCallBack?, _ instance: CFMachPort) {
        let isLate = state.withLock { state in
            let isLate = !state.isValid && state.callBack == nil
            if state.isValid { state.callBack = callBack }
            return isLate
        }
        if isLate { callBack?(instance, nil) }
    }

    func description(of instance: CFMachPort) -> String {
        "<CFMachPort \(Unmanaged.passUnretained(instance).toOpaque())>{valid = \(isValid ? "Yes" : "No"), "
            + "port = \(String(number, radix: 16)), \(info.description(calling: callBack))}"
    }
}

extension CFMachPort {
    var body: MachPortBody { MachPortBody.objects.body(of: self) }
}
