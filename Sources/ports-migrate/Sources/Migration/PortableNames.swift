/// Names of macOS that modules of swift-ports have.
enum PortableNames {
    static func isOfFoundationPorts(_ name: String) -> Bool {
        foundationPorts.contains(name) || name.hasPrefix("kCF")
            || (name.hasPrefix("CF") && name.dropFirst(2).first?.isUppercase == true)
    }

    static func isOfDarwinNames(_ name: String) -> Bool {
        darwinNames.contains(name)
            || ["objc_", "OBJC_ASSOCIATION_", "os_unfair_lock", "mach_timebase_info"].contains {
                name.hasPrefix($0)
            }
    }

    private static let foundationPorts: Set<String> = [
        "DarwinBoolean", "KERN_SUCCESS", "MACH_PORT_NULL", "MessagePort", "MessagePortNameServer", "NSMachPort",
        "NSMachPortDelegate",
        "NSMessagePort", "NSMessagePortNameServer", "NSPort", "NSPortMessage", "Port", "PortDelegate", "PortMessage",
        "PortNameServer", "commonModes", "defaultMode", "getCFRunLoop", "kern_return_t", "mach_port_t",
    ]

    private static let darwinNames: Set<String> = [
        "OSAllocatedUnfairLock", "SInt32", "autoreleasepool", "boolValue", "mach_absolute_time",
    ]
}
