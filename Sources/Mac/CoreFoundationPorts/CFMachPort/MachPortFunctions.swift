import CCoreFoundationPorts
@preconcurrency import CoreFoundation
import Ports

// The functions of CFMachPort.h. Swift programs see that header's declarations, so these have other names.

@usableFromInline
@_cdecl("CFMachPortGetTypeID")
func machPortTypeID() -> CFTypeID { MachPortBody.objects.typeID }

@usableFromInline
@_cdecl("CFMachPortCreate")
func createMachPort(
    _ allocator: CFAllocator?, _ callBack: CFMachPortCallBack?, _ context: UnsafePointer<CFMachPortContext>?,
    _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> Unmanaged<CFMachPort>? {
    shouldFreeInfo?.pointee = true
    let port: MachPort
    do throws(PortError) { port = try MachPort() } catch {
        log.error("CFMachPortCreate failed: \(error)")
        return nil
    }
    let number = PortNumbers.shared.hold(port)
    let made = make(allocator, number, ownsReceiver: true, callBack, context, shouldFreeInfo)
    if made == nil { _ = PortNumbers.shared.takeReceiver(number) }
    return made
}

@usableFromInline
@_cdecl("CFMachPortCreateWithPort")
func createMachPortWithPort(
    _ allocator: CFAllocator?, _ number: UInt32, _ callBack: CFMachPortCallBack?,
    _ context: UnsafePointer<CFMachPortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> Unmanaged<CFMachPort>? {
    shouldFreeInfo?.pointee = true
    return make(allocator, number, ownsReceiver: false, callBack, context, shouldFreeInfo)
}

private func make(
    _ allocator: CFAllocator?, _ number: UInt32, ownsReceiver: Bool, _ callBack: CFMachPortCallBack?,
    _ context: UnsafePointer<CFMachPortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> Unmanaged<CFMachPort>? {
    let made = MachPortBody.make(allocator, number, ownsReceiver: ownsReceiver, callBack) { ContextInfo(context) }
    if made?.isNew == true { shouldFreeInfo?.pointee = false }
    return made.map { .passRetained($0.port) }
}

@usableFromInline
@_cdecl("CFMachPortGetPort")
func numberOfMachPort(_ port: CFMachPort) -> UInt32 { port.body.number }

@usableFromInline
@_cdecl("CFMachPortGetContext")
func contextOfMachPort(_ port: CFMachPort, _ context: UnsafeMutablePointer<CFMachPortContext>) {
    port.body.info.copy(to: context)
}

@usableFromInline
@_cdecl("CFMachPortInvalidate")
func invalidateMachPort(_ port: CFMachPort) { port.body.invalidate(port) }

@usableFromInline
@_cdecl("CFMachPortIsValid")
func isMachPortValid(_ port: CFMachPort) -> Bool { port.body.isValid }

@usableFromInline
@_cdecl("CFMachPortGetInvalidationCallBack")
func invalidationCallBackOfMachPort(_ port: CFMachPort) -> CFMachPortInvalidationCallBack? {
    port.body.invalidationCallBack
}

@usableFromInline
@_cdecl("CFMachPortSetInvalidationCallBack")
func setInvalidationCallBackOfMachPort(_ port: CFMachPort, _ callBack: CFMachPortInvalidationCallBack?) {
    port.body.setCallBack(callBack, port)
}

@usableFromInline
@_cdecl("CFMachPortCreateRunLoopSource")
func createMachPortSource(
    _ allocator: CFAllocator?, _ port: CFMachPort, _ order: CFIndex
) -> Unmanaged<CFRunLoopSource>? {
    port.body.makeSource(port, order: order).map { .passRetained($0) }
}
