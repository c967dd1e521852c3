@preconcurrency import CoreFoundation
import Ports

// The functions of CFMessagePort.h, as CoreFoundation declares them. Swift programs see those declarations, so these have
// other names.

@usableFromInline
@_cdecl("CFMessagePortGetTypeID")
func messagePortTypeID() -> CFTypeID { MessagePortBody.objects.typeID }

@usableFromInline
@_cdecl("CFMessagePortCreateLocal")
func createLocalMessagePort(
    _ allocator: CFAllocator?, _ name: CFString?, _ callBack: CFMessagePortCallBack?,
    _ context: UnsafePointer<CFMessagePortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> Unmanaged<CFMessagePort>? {
    let local = MessagePortBody.makeLocal(allocator, name, callBack, context?.pointee ?? CFMessagePortContext())
    shouldFreeInfo?.pointee = local?.isNew != true
    return local.map { .passRetained($0.port) }
}

@usableFromInline
@_cdecl("CFMessagePortCreateRemote")
func createRemoteMessagePort(_ allocator: CFAllocator?, _ name: CFString?) -> Unmanaged<CFMessagePort>? {
    name.flatMap { MessagePortBody.makeRemote(allocator, $0) }.map { .passRetained($0) }
}

@usableFromInline
@_cdecl("CFMessagePortIsRemote")
func isMessagePortRemote(_ port: CFMessagePort) -> Bool { port.body.isRemote }

@usableFromInline
@_cdecl("CFMessagePortGetName")
func nameOfMessagePort(_ port: CFMessagePort) -> Unmanaged<CFString>? {
    // The port keeps it.
    port.body.state.withLock { $0.name }.map { .passUnretained($0) }
}

@usableFromInline
@_cdecl("CFMessagePortSetName")
func setNameOfMessagePort(_ port: CFMessagePort, _ name: CFString?) -> Bool {
    name.map { port.body.rename($0) } ?? false
}

@usableFromInline
@_cdecl("CFMessagePortGetContext")
func contextOfMessagePort(_ port: CFMessagePort, _ context: UnsafeMutablePointer<CFMessagePortContext>) {
    context.pointee = port.body.context
}

@usableFromInline
@_cdecl("CFMessagePortInvalidate")
func invalidateMessagePort(_ port: CFMessagePort) { port.body.invalidate(port) }

@usableFromInline
@_cdecl("CFMessagePortIsValid")
func isMessagePortValid(_ port: CFMessagePort) -> Bool { port.body.isValid(port) }

@usableFromInline
@_cdecl("CFMessagePortGetInvalidationCallBack")
func invalidationCallBackOfMessagePort(_ port: CFMessagePort) -> CFMessagePortInvalidationCallBack? {
    port.body.state.withLock { $0.callBack }
}

@usableFromInline
@_cdecl("CFMessagePortSetInvalidationCallBack")
func setInvalidationCallBackOfMessagePort(_ port: CFMessagePort, _ callBack: CFMessagePortInvalidationCallBack?) {
    port.body.setCallBack(callBack, port)
}

@usableFromInline
@_cdecl("CFMessagePortSendRequest")
func sendMessagePortRequest(
    _ port: CFMessagePort, _ id: Int32, _ data: CFData?, _ sendTimeout: CFTimeInterval, _ replyTimeout: CFTimeInterval,
    _ replyMode: CFString?, _ reply: UnsafeMutablePointer<Unmanaged<CFData>?>?
) -> Int32 {
    let body = port.body
    if let data, CFDataGetLength(data) > MessagePortBody.dataLimit {
        log.error("CFMessagePortSendRequest takes \(MessagePortBody.dataLimit) bytes at most")
        return Int32(kCFMessagePortTransportError)
    }
    guard body.isValid(port) else { return Int32(kCFMessagePortIsInvalid) }
    do throws(PortError) {
        if let replyMode {
            let bytes = try body.request(
                id: id, data, sendTimeout: sendTimeout, replyTimeout: replyTimeout, mode: replyMode)
            // On macOS, an asker gets data also of a reply without any.
            reply?.pointee = .passRetained((bytes ?? []).cfData)
        } else {
            try body.send(id: id, data, timeout: sendTimeout)
        }
        return Int32(kCFMessagePortSuccess)
    } catch {
        let result = error.messagePortResult
        // The other results say it all.
        if result == Int32(kCFMessagePortTransportError) { log.warning("CFMessagePortSendRequest failed: \(error)") }
        return result
    }
}

@usableFromInline
@_cdecl("CFMessagePortCreateRunLoopSource")
func createMessagePortSource(
    _ allocator: CFAllocator?, _ port: CFMessagePort, _ order: CFIndex
) -> Unmanaged<CFRunLoopSource>? {
    port.body.makeSource(port, order: order).map { .passRetained($0) }
}

/// CoreFoundation for Linux lacks this function, which macOS has.
@usableFromInline
@_cdecl("CFGetRetainCount")
func retainCount(_ object: UnsafeRawPointer) -> CFIndex {
    // Objects of CoreFoundation are objects of Swift's runtime here.
    Int(Unmanaged<AnyObject>.fromOpaque(object)._withUnsafeGuaranteedRef { _getRetainCount($0) })
}
