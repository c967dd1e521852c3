/// Names of macOS that modules of swift-ports have.
enum PortableNames {
    static func isOfFoundationPorts(_ name: String) -> Bool {
        foundationPorts.contains(name)
            || [
                "kCF", "mach_error", "mach_msg", "mach_port_", "mach_task_self", "bootstrap_", "task_get_special_port",
                "BOOTSTRAP_", "MACH_MSG", "MACH_PORT_", "MACH_RCV", "MACH_SEND",
            ].contains { name.hasPrefix($0) }
            || (name.hasPrefix("CF") && name.dropFirst(2).first?.isUppercase == true)
    }

    /// Whether a name is one of ports, and not of what is often written for one system alone.
    static func isOfPorts(_ name: String) -> Bool {
        isOfXPC(name)
            || [
                "DistributedNotificationCenter", "bootstrap_check_in", "bootstrap_look_up", "bootstrap_register",
                "mach_msg",
                "mach_port_allocate", "mach_port_insert_right",
            ].contains(name)
            || ["CFMachPort", "CFMessagePort", "CFNotificationCenter", "NSMachPort", "NSMessagePort", "NSPortMessage"]
                .contains { name.hasPrefix($0) }
    }

    static func isOfDarwinNames(_ name: String) -> Bool {
        darwinNames.contains(name)
            || ["objc_", "OBJC_ASSOCIATION_", "os_unfair_lock", "mach_timebase_info"].contains {
                name.hasPrefix($0)
            }
    }

    private static let foundationPorts: Set<String> = [
        "KERN_FAILURE", "KERN_INVALID_ARGUMENT", "KERN_INVALID_NAME", "KERN_INVALID_RIGHT", "KERN_NO_SPACE",
        "KERN_SUCCESS",
        "TASK_BOOTSTRAP_PORT", "DarwinBoolean", "DistributedNotificationCenter", "MessagePort", "MessagePortNameServer",
        "NSDistributedNotificationCenter", "NSMachBootstrapServer", "NSMachPort", "NSMachPortDelegate", "NSMessagePort",
        "NSMessagePortNameServer", "NSPort", "NSPortMessage", "NSSocketPortNameServer", "Port", "PortDelegate",
        "PortMessage", "PortNameServer", "SocketPortNameServer", "commonModes", "defaultMode", "getCFRunLoop",
        "kern_return_t", "vm_deallocate",
    ]

    /// On macOS, Foundation exports the module XPC.
    static func isOfXPC(_ name: String) -> Bool { xpc.contains(name) }

    private static let xpc: Set<String> = [
        "XPCArray", "XPCDictionary", "XPCEndpoint", "XPCListener", "XPCPeerHandler", "XPCPeerRequirement",
        "XPCReceivedMessage", "XPCRichError", "XPCSession",
    ]

    private static let darwinNames: Set<String> = [
        "OSAllocatedUnfairLock", "SInt32", "autoreleasepool", "boolValue", "mach_absolute_time",
    ]
}
