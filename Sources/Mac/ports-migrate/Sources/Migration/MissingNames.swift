/// Names of macOS that Linux lacks, with advice.
enum MissingNames {
    /// Every name with advice, and the beginnings of names with it.
    static var all: [String] { advice.keys.sorted() + families.map(\.prefix) }

    /// Advice on a name; nil when there is none.
    static func advice(on name: String) -> String? {
        if let advice = advice[name] { return advice }
        guard !present.contains(name) else { return nil }
        return families.first { name.hasPrefix($0.prefix) }?.advice
    }

    private static let advice = [
        "AEInstallEventHandler": "there are no Apple events; send messages to a port",
        "Bundle.main.bundleIdentifier": "a command has none and gets nil; write the identifier",
        "NSAppleScript": "there are no Apple events; send messages to a port",
        "NSConnection": "there are no distributed objects; use TypedPorts",
        "NSFileCoordinator": "lock the file with flock",
        "NSHashTable": "use an array of weak references",
        "NSKeyValueObservation": "use didSet, a closure or AsyncStream",
        "NSMapTable": "use a dictionary of weak references",
        "NSUserScriptTask": "start a Process",
        "OSMemoryBarrier": "use Atomic of the module Synchronization",
        "OS_SPINLOCK_INIT": lock,
        "RunLoopMode": "write RunLoop.Mode",
        "pthread_mach_thread_np": "there are no Mach threads: take pthread_self()",
        "setCodeSigningRequirement": "use setPeerRequirement(_:) of the module XPC",
        "SMAppService": "systemd starts daemons; the module Activation starts services",
        "Selector": "pass a closure",
    ]

    private static let families = [
        (prefix: "NSXPC", advice: "use XPCSession and XPCListener, or TypedPorts: the page about XPC says how"),
        (prefix: "OSAtomic", advice: "use Atomic of the module Synchronization"),
        (prefix: "OSSpinLock", advice: lock),
        (prefix: "xpc_", advice: "use the Swift API of the module XPC: XPCSession and XPCListener"),
    ]

    /// Names of those families that Foundation has.
    private static let present: Set<String> = [
        "NSXPCConnectionInterrupted", "NSXPCConnectionInvalid", "NSXPCConnectionReplyInvalid",
    ]

    private static let lock = "use os_unfair_lock, which DarwinNames has, or Mutex of the module Synchronization"

    /// Advice on names of the modules `os` and `OSLog`. Other modules have the same names.
    static let adviceOnLogging = [
        "Logger": "use swift-log's Logger, or print",
        "OSLog": "use swift-log, or print",
        "OSSignposter": "use swift-distributed-tracing",
        "os_log": "use swift-log, or print",
        "os_signpost": "use swift-distributed-tracing",
    ]

    /// Names of peer requirements, which Linux has, and which no process meets there.
    static let unmet: Set<String> = [
        "hasEntitlement", "isFromSameTeam", "isPlatformCode", "lightweightCodeRequirements",
    ]

    /// Whether a name has the prefix of UIKit.
    static func isOfUIKit(_ name: String) -> Bool {
        name.hasPrefix("UI") && name.dropFirst(2).first?.isUppercase == true
            && name.dropFirst(3).first?.isLowercase == true
    }

    /// Whether a name has the prefix of AppKit, Core Graphics or Accessibility, and Foundation for Linux lacks it.
    static func isOfAppKit(_ name: String) -> Bool {
        if PortableNames.isOfFoundationPorts(name) { return false }
        if name.hasPrefix("NS"), name.dropFirst(2).first?.isUppercase == true {
            return !foundation.contains(name) && !constants.contains { name.hasPrefix($0) } && advice(on: name) == nil
        }
        if name.hasPrefix("CG"), name.dropFirst(2).first?.isUppercase == true {
            return !["CGFloat", "CGPoint", "CGSize", "CGRect", "CGRectEdge", "CGAffineTransform"].contains(name)
        }
        return (name.hasPrefix("AX") || name.hasPrefix("kAX"))
            && (name.hasPrefix("AXUI") || name.hasPrefix("AXIs")
                || name.hasPrefix("AXObserver") || name.hasPrefix("AXValue") || name.hasPrefix("kAX"))
    }

    /// Beginnings of the names of Foundation's errors, keys and geometry.
    private static let constants = [
        "NSCoder", "NSDecimal", "NSExecutable", "NSFile", "NSFormatting", "NSKeyedArch", "NSKeyedUnarch",
        "NSPersonNameComponent", "NSPoint", "NSPropertyList", "NSRange", "NSRect", "NSSize", "NSURLError",
        "NSEdgeInsets",
        "NSUbiquitous", "NSUserActivityC", "NSUserActivityH", "NSUserActivityR", "NSStreamS", "NSXPCConnectionI",
        "NSXPCConnectionReply", "NSStringFrom", "NSLocalized", "NSCocoaError",
    ]

    private static let foundation = Set(
        """
        NSAffineTransform NSArray NSAttributedString NSBinarySearchingOptions NSCache NSCacheDelegate NSCalendar \
        NSCharacterSet NSClassFromString NSCoding NSComparisonPredicate NSCompoundPredicate NSCondition NSConditionLock \
        NSCopying NSCountedSet NSData NSDate NSDateComponents NSDateInterval NSDebugDescriptionErrorKey NSDictionary NSEnumerationOptions \
        NSEnumerator NSError NSErrorDomain NSExceptionName NSExpression NSFullUserName NSHomeDirectory \
        NSHomeDirectoryForUser NSIndexPath NSIndexSet NSIntersectionRange NSLocale NSLocationInRange NSLock NSLocking NSLog \
        NSLogv NSMachErrorDomain NSMachPort NSMachPortDelegate NSMakePoint NSMakeRange NSMakeRect NSMakeSize NSMaxRange \
        NSMeasurement NSMessagePort NSMessagePortNameServer NSMutableArray NSMutableAttributedString \
        NSMutableCharacterSet NSMutableCopying NSMutableData NSMutableDictionary NSMutableIndexSet NSMutableOrderedSet \
        NSMutableSet NSMutableString NSNotFound NSNotification NSNull NSNumber NSObject NSObjectProtocol \
        NSOrderedSet NSOSStatusErrorDomain NSOrthography NSPOSIXErrorDomain NSPageSize NSPort NSPortMessage NSPredicate \
        NSRecursiveLock NSRegularExpression NSSearchPathForDirectoriesInDomains NSSecureCoding NSSet NSSortDescriptor \
        NSSortOptions NSString NSTemporaryDirectory NSTextCheckingKey NSTextCheckingResult NSTimeIntervalSince1970 \
        NSTimeZone NSURL NSURLComponents NSURLQueryItem NSUUID NSUnderlyingErrorKey NSUnionRange NSUserCancelledError \
        NSUserName NSValue NSZone NSMachBootstrapServer NSContainsRect NSDateComponentUndefined NSDivideRect \
        NSEqualPoints NSEqualRanges NSEqualRects NSEqualSizes NSFeatureUnsupportedError NSGetSizeAndAlignment NSHeight \
        NSHelpAnchorErrorKey NSInsetRect NSIntegralRect NSIntersectionRect NSIntersectsRect NSIsEmptyRect \
        NSKeyValueValidationError NSMaxX NSMaxY NSMidX NSMidY NSMinX NSMinY NSMouseInRect NSOffsetRect \
        NSRecoveryAttempterErrorKey NSStringEncodingErrorKey NSUnionRect NSWidth NSZeroPoint NSZeroRect NSZeroSize
        """.split { $0 == " " || $0.isNewline }.map(String.init))
}
