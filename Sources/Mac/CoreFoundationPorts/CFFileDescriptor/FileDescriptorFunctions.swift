import CCoreFoundationPorts
@preconcurrency import CoreFoundation
import RunLoops

// The functions of CFFileDescriptor.h. Swift programs see that header's declarations, so these have other names.

@usableFromInline
@_cdecl("CFFileDescriptorGetTypeID")
func fileDescriptorTypeID() -> CFTypeID { FileDescriptorBody.objects.typeID }

@usableFromInline
@_cdecl("CFFileDescriptorCreate")
func createFileDescriptor(
    _ allocator: CFAllocator?, _ descriptor: Int32, _ closesOnInvalidation: Bool,
    _ callBack: CFFileDescriptorCallBack?, _ context: UnsafePointer<CFFileDescriptorContext>?
) -> Unmanaged<CFFileDescriptor>? {
    let body = FileDescriptorBody(descriptor, closes: closesOnInvalidation, callBack, ContextInfo(context))
    return body.flatMap { FileDescriptorBody.objects.makeInstance(allocator, $0) }.map { .passRetained($0) }
}

@usableFromInline
@_cdecl("CFFileDescriptorGetNativeDescriptor")
func nativeDescriptor(_ file: CFFileDescriptor) -> Int32 { file.body.native }

@usableFromInline
@_cdecl("CFFileDescriptorGetContext")
func contextOfFileDescriptor(_ file: CFFileDescriptor, _ context: UnsafeMutablePointer<CFFileDescriptorContext>) {
    file.body.info.copy(to: context)
}

@usableFromInline
@_cdecl("CFFileDescriptorEnableCallBacks")
func enableCallBacks(_ file: CFFileDescriptor, _ types: CFOptionFlags) {
    file.body.enable(RunLoopReadiness(callBackTypes: types), true)
}

@usableFromInline
@_cdecl("CFFileDescriptorDisableCallBacks")
func disableCallBacks(_ file: CFFileDescriptor, _ types: CFOptionFlags) {
    file.body.enable(RunLoopReadiness(callBackTypes: types), false)
}

@usableFromInline
@_cdecl("CFFileDescriptorInvalidate")
func invalidateFileDescriptor(_ file: CFFileDescriptor) { file.body.invalidate(file) }

@usableFromInline
@_cdecl("CFFileDescriptorIsValid")
func isFileDescriptorValid(_ file: CFFileDescriptor) -> Bool { file.body.isValid }

@usableFromInline
@_cdecl("CFFileDescriptorCreateRunLoopSource")
func createFileDescriptorSource(
    _ allocator: CFAllocator?, _ file: CFFileDescriptor, _ order: CFIndex
) -> Unmanaged<CFRunLoopSource>? {
    file.body.makeSource(file, order: order).map { .passRetained($0) }
}
