@preconcurrency import CoreFoundation
import Dispatch
import Ports
import RunLoopLocks

extension MessagePortBody {
    /// The most bytes of data in a request and in a reply, as CFMessagePort has it.
    static let dataLimit = 0x6000_0000
    /// A message is its data, a header, and the right to the port for the reply, which names a directory.
    static let messageLimit = dataLimit + 8192

    /// One at a time, so that of two ports with one name only the first is made.
    private static let making = Lock(())

    /// The local port of a name: a new one, or the one that has the name.
    static func makeLocal(
        _ allocator: CFAllocator?, _ name: CFString?, _ callBack: CFMessagePortCallBack?,
        _ context: CFMessagePortContext
    ) -> (port: CFMessagePort, isNew: Bool)? {
        let text = name.map(String.init(portName:))
        if let text, let existing = MessagePortNames.local.existing(text) { return (existing, false) }
        let callout = MessagePortCallout(callBack, context)
        return making.withLock { _ in
            if let text, let existing = MessagePortNames.local.existing(text) { return (existing, false) }
            guard let port = makePort(text, callout) else { return nil }
            // The name must not change with a string that the program changes.
            let body = MessagePortBody(.local(port, callout), name: text.map(\.cfString))
            callout.body = body
            guard let instance = MessagePortBody.objects.makeInstance(allocator, body) else { return nil }
            callout.info.retain()
            if let text { MessagePortNames.local.insert(text, body) }
            return (instance, true)
        }
    }

    private static func makePort(_ name: String?, _ callout: MessagePortCallout) -> LocalMessagePort? {
        do throws(PortError) {
            return try LocalMessagePort(name: name, messageLimit: messageLimit, requestHandler: callout.handle)
        } catch {
            log.error("CFMessagePortCreateLocal failed: \(error)")
            return nil
        }
    }

    /// False when the port keeps its old name.
    func rename(_ name: CFString) -> Bool {
        guard case .local(let port, _) = port, state.withLock({ $0.isValid }) else { return false }
        let text = String(portName: name)
        let isRenamed = logged("CFMessagePortSetName") { () throws(PortError) in try port.rename(to: text) } != nil
        guard isRenamed else { return false }
        let former = state.withLock { state in
            defer { state.name = text.cfString }
            return state.name
        }
        if former.map(String.init(_:)) != text {
            MessagePortNames.local.remove(former, self)
            MessagePortNames.local.insert(text, self)
        }
        return true
    }

    /// The context of a local port, without info after its end; empty for a remote port.
    var context: CFMessagePortContext {
        if case .local(_, let callout) = port { callout.info.context } else { CFMessagePortContext() }
    }

    /// The source of a local port: always the same, as long as that is valid and somebody keeps it.
    func makeSource(_ instance: CFMessagePort, order: Int) -> CFRunLoopSource? {
        guard case .local(let port, _) = port, isValid(instance) else { return nil }
        return source.source {
            if state.withLock({ $0.keptByQueue != nil }) { return nil }
            let descriptor = logged("CFMessagePortCreateRunLoopSource") { () throws(PortError) in
                try PortDescriptor(port)
            }
            guard let descriptor else { return nil }
            // One message in a run that returns after a source.
            return RunLoopPortSource(descriptor, order: order, atMost: 1, keeping: instance).source
        }
    }

    func setQueue(_ queue: DispatchQueue?, _ instance: CFMessagePort) {
        guard case .local(let port, _) = port, isValid(instance) else {
            return log.warning("CFMessagePortSetDispatchQueue does nothing with an invalid or a remote port")
        }
        let hasSource = source.use { source in
            if source != nil { return true }
            state.withLock { if $0.isValid { $0.keptByQueue = queue == nil ? nil : instance } }
            return false
        }
        if hasSource {
            log.warning("CFMessagePortSetDispatchQueue does nothing with a port that has a run-loop source")
        } else {
            do throws(PortError) { try port.setQueue(queue) } catch {
                log.error("CFMessagePortSetDispatchQueue failed: \(error)")
            }
        }
    }
}
