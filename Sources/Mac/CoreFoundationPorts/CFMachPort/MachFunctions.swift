import CCoreFoundationPorts
import Glibc
import Ports
import RunLoopLocks
import RunLoops

// The functions of mach.h, mach_time.h and bootstrap.h.

@usableFromInline
@_cdecl("mach_msg")
func machMessage(
    _ message: UnsafeMutablePointer<mach_msg_header_t>, _ option: Int32, _ sendSize: UInt32, _ receiveSize: UInt32,
    _ receiver: UInt32, _ milliseconds: UInt32, _ notify: UInt32
) -> Int32 {
    func deadline(_ flag: Int32) -> ContinuousClock.Instant? {
        option & flag == 0 ? nil : .now + .milliseconds(Int64(milliseconds))
    }
    if option & MACH_SEND_MSG != 0 {
        let headerSize = MemoryLayout<mach_msg_header_t>.size
        guard sendSize >= headerSize else { return MACH_SEND_MSG_TOO_SMALL }
        let bytes = UnsafeRawBufferPointer(start: message, count: Int(sendSize)).dropFirst(headerSize)
        let result = send(message.pointee, UnsafeRawBufferPointer(rebasing: bytes), before: deadline(MACH_SEND_TIMEOUT))
        guard result == MACH_MSG_SUCCESS else { return result }
    }
    guard option & MACH_RCV_MSG != 0 else { return MACH_MSG_SUCCESS }
    let buffer = UnsafeMutableRawBufferPointer(start: message, count: Int(receiveSize))
    return receive(receiver, into: buffer, before: deadline(MACH_RCV_TIMEOUT))
}

@usableFromInline
@_cdecl("mach_msg_destroy")
func destroyMachMessage(_ header: UnsafeMutablePointer<mach_msg_header_t>) { destroy(header) }

@usableFromInline
@_cdecl("vm_deallocate")
func deallocateMemory(_ task: UInt32, _ address: UInt, _ size: UInt) -> Int32 {
    guard size > 0, let memory = UnsafeMutableRawPointer(bitPattern: address) else { return KERN_SUCCESS }
    return munmap(memory, Int(size)) == 0 ? KERN_SUCCESS : KERN_INVALID_ARGUMENT
}

@usableFromInline
@_cdecl("mach_absolute_time")
func machTime() -> UInt64 { MonotonicInstant.now.nanoseconds }

@usableFromInline
@_cdecl("mach_port_allocate")
func allocateMachPort(_ task: UInt32, _ right: UInt32, _ name: UnsafeMutablePointer<UInt32>) -> Int32 {
    guard right == MACH_PORT_RIGHT_RECEIVE else { return KERN_INVALID_ARGUMENT }
    guard let port = logged("mach_port_allocate", { () throws(PortError) in try MachPort() }) else {
        return KERN_NO_SPACE
    }
    name.pointee = PortNumbers.shared.hold(port)
    return KERN_SUCCESS
}

@usableFromInline
@_cdecl("mach_port_insert_right")
func insertMachRight(_ task: UInt32, _ name: UInt32, _ port: UInt32, _ type: UInt32) -> Int32 {
    guard name == port else { return KERN_INVALID_ARGUMENT }
    return PortNumbers.shared.change(name, by: 1) ? KERN_SUCCESS : KERN_INVALID_NAME
}

@usableFromInline
@_cdecl("mach_port_deallocate")
func deallocateMachPort(_ task: UInt32, _ name: UInt32) -> Int32 {
    if PortNumbers.shared.change(name, by: -1) { return KERN_SUCCESS }
    return PortNumbers.shared.right(name) == nil ? KERN_INVALID_NAME : KERN_INVALID_RIGHT
}

@usableFromInline
@_cdecl("mach_port_mod_refs")
func changeMachReferences(_ task: UInt32, _ name: UInt32, _ right: UInt32, _ delta: Int32) -> Int32 {
    guard PortNumbers.shared.right(name) != nil else { return KERN_INVALID_NAME }
    guard right == MACH_PORT_RIGHT_RECEIVE else {
        return PortNumbers.shared.change(name, by: Int(delta)) ? KERN_SUCCESS : KERN_INVALID_RIGHT
    }
    guard delta == -1, let receiver = PortNumbers.shared.takeReceiver(name) else { return KERN_INVALID_RIGHT }
    receiver.invalidate()
    return KERN_SUCCESS
}

@usableFromInline
@_cdecl("mach_port_destroy")
func destroyMachPort(_ task: UInt32, _ name: UInt32) -> Int32 {
    guard PortNumbers.shared.right(name) != nil else { return KERN_INVALID_NAME }
    PortNumbers.shared.takeReceiver(name)?.invalidate()
    PortNumbers.shared.removeReferences(name)
    return KERN_SUCCESS
}

@usableFromInline
@_cdecl("bootstrap_register")
func registerMachPort(_ server: UInt32, _ name: UnsafePointer<CChar>, _ port: UInt32) -> Int32 {
    guard let receiver = PortNumbers.shared.receiver(port) else {
        log.error(
            "bootstrap_register failed: number \(port) has no right to receive here (an NSMachPort's is registered by "
                + "NSMachBootstrapServer)")
        return KERN_INVALID_RIGHT
    }
    do throws(PortError) {
        try PortNameServer.shared.register(receiver, name: String(cString: name))
        return BOOTSTRAP_SUCCESS
    } catch {
        if case .nameInUse = error { return BOOTSTRAP_NAME_IN_USE }
        log.error("bootstrap_register failed: \(error)")
        return BOOTSTRAP_NOT_PRIVILEGED
    }
}

/// The ports of the names that this process has created, and not checked in.
private let created = Lock<[String: UInt32]>([:])

@usableFromInline
@_cdecl("bootstrap_create_service")
func createMachService(_ server: UInt32, _ name: UnsafePointer<CChar>, _ port: UnsafeMutablePointer<UInt32>) -> Int32 {
    let result = checkInMachPort(server, name, port)
    guard result == BOOTSTRAP_SUCCESS else { return result }
    let (name, number) = (String(cString: name), port.pointee)
    created.withLock { $0[name] = number }
    PortNumbers.shared.change(number, by: 1)
    return BOOTSTRAP_SUCCESS
}

@usableFromInline
@_cdecl("bootstrap_check_in")
func checkInMachPort(_ server: UInt32, _ name: UnsafePointer<CChar>, _ port: UnsafeMutablePointer<UInt32>) -> Int32 {
    let text = String(cString: name)
    if let known = created.withLock({ $0.removeValue(forKey: text) }) {
        port.pointee = known
        return BOOTSTRAP_SUCCESS
    }
    var made: UInt32 = 0
    var result = allocateMachPort(mach_task_self_, UInt32(MACH_PORT_RIGHT_RECEIVE), &made)
    guard result == KERN_SUCCESS else { return result }
    result = registerMachPort(server, name, made)
    guard result == BOOTSTRAP_SUCCESS else {
        _ = destroyMachPort(mach_task_self_, made)
        return result == BOOTSTRAP_NAME_IN_USE ? BOOTSTRAP_SERVICE_ACTIVE : result
    }
    port.pointee = made
    return BOOTSTRAP_SUCCESS
}

@usableFromInline
@_cdecl("bootstrap_look_up")
func lookUpMachPort(_ server: UInt32, _ name: UnsafePointer<CChar>, _ port: UnsafeMutablePointer<UInt32>) -> Int32 {
    let right = logged("bootstrap_look_up", unless: \.isNameNotFound) { () throws(PortError) in
        try PortNameServer.shared.port(forName: String(cString: name))
    }
    guard let right else { return BOOTSTRAP_UNKNOWN_SERVICE }
    port.pointee = PortNumbers.shared.retain(right)
    return BOOTSTRAP_SUCCESS
}
