import CCoreFoundationPorts
@preconcurrency import CoreFoundation

// The functions of CFNotificationCenter.h, as CoreFoundation declares them.

@usableFromInline
@_cdecl("CFNotificationCenterGetTypeID")
func notificationCenterTypeID() -> CFTypeID { NotificationCenterBody.objects.typeID }

@usableFromInline
@_cdecl("CFNotificationCenterGetLocalCenter")
func localCenter() -> Unmanaged<CFNotificationCenter> { .passUnretained(NotificationCenterBody.local) }

@usableFromInline
@_cdecl("CFNotificationCenterGetDistributedCenter")
func distributedCenter() -> Unmanaged<CFNotificationCenter> { .passUnretained(NotificationCenterBody.distributed) }

@usableFromInline
@_cdecl("CFNotificationCenterGetDarwinNotifyCenter")
func darwinCenter() -> Unmanaged<CFNotificationCenter> { .passUnretained(NotificationCenterBody.darwin) }

@usableFromInline
@_cdecl("CFNotificationCenterAddObserver")
func addObserver(
    _ center: CFNotificationCenter, _ observer: UnsafeRawPointer?, _ callBack: CFNotificationCallback?,
    _ name: CFString?, _ object: UnsafeRawPointer?, _ behavior: CFNotificationSuspensionBehavior
) {
    center.body.add(observer, callBack, name, object, behavior)
}

@usableFromInline
@_cdecl("CFNotificationCenterRemoveObserver")
func removeObserver(
    _ center: CFNotificationCenter, _ observer: UnsafeRawPointer?, _ name: CFString?, _ object: UnsafeRawPointer?
) {
    center.body.remove(observer, name, object)
}

@usableFromInline
@_cdecl("CFNotificationCenterRemoveEveryObserver")
func removeEveryObserver(_ center: CFNotificationCenter, _ observer: UnsafeRawPointer?) {
    center.body.remove(observer, nil, nil)
}

@usableFromInline
@_cdecl("CFNotificationCenterPostNotification")
func postNotification(
    _ center: CFNotificationCenter, _ name: CFString?, _ object: UnsafeRawPointer?, _ userInfo: CFDictionary?,
    _ isImmediate: Bool
) {
    guard let name else { return }
    center.body.post(PostedNotification(name, object, userInfo, isImmediate: isImmediate))
}

@usableFromInline
@_cdecl("CFNotificationCenterPostNotificationWithOptions")
func postNotification(
    _ center: CFNotificationCenter, _ name: CFString?, _ object: UnsafeRawPointer?, _ userInfo: CFDictionary?,
    options: CFOptionFlags
) {
    // There is one session, the user's.
    postNotification(center, name, object, userInfo, options & CFOptionFlags(kCFNotificationDeliverImmediately) != 0)
}

@usableFromInline
@_cdecl("_CFNotificationCenterIsSuspended")
func isCenterSuspended(_ center: CFNotificationCenter) -> Bool { center.body.isSuspended }

@usableFromInline
@_cdecl("_CFNotificationCenterSetSuspended")
func suspendCenter(_ center: CFNotificationCenter, _ isSuspended: Bool) { center.body.suspend(isSuspended) }
