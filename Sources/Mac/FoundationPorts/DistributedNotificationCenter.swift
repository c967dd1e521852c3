import CoreFoundation
import CoreFoundationPorts
import Foundation
import RunLoopLocks

/// Notifications for all processes of the user. The corresponding class is NSDistributedNotificationCenter, and the
/// corresponding CF function is `CFNotificationCenterGetDistributedCenter`.
///
///     let token = DistributedNotificationCenter.default().addObserver(
///         forName: .init("com.example.settings.changed"), object: nil, queue: nil
///     ) { notification in
///         print("changed:", notification.userInfo ?? [:])
///     }
///     DistributedNotificationCenter.default().postNotificationName(
///         .init("com.example.settings.changed"), object: nil, userInfo: ["key": "colour"], deliverImmediately: true)
///
/// Observers are called on the main thread, whose loop has to run in a common mode, or on their operation queue. Objects are
/// strings, and user info is a property list. Any thread may call all methods. Foundation on Linux lets no class override
/// NotificationCenter's methods, so this one is no subclass.
open class DistributedNotificationCenter: NSObject, @unchecked Sendable {
    // Sound: what changes is behind the lock.
    /// The fate of notifications while the centre is suspended.
    public enum SuspensionBehavior: UInt, Sendable {
        /// They are dropped.
        case drop = 1
        /// The last of each name and object is kept.
        case coalesce
        /// All are kept, up to a limit.
        case hold
        /// They are delivered all the same.
        case deliverImmediately
    }

    /// The options of a post.
    public struct Options: OptionSet, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Also suspended centres deliver the notification.
        public static let deliverImmediately = Options(rawValue: 1)
        /// Has no effect: there is one session, the user's.
        public static let postToAllSessions = Options(rawValue: 2)
    }

    /// The centre that a process shares its notifications in.
    public struct CenterType: RawRepresentable, Hashable, Sendable {
        /// The name.
        public let rawValue: String
        /// Makes a type of its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// All processes of the user.
        public static let localNotificationCenterType = CenterType(rawValue: "NSLocalNotificationCenterType")
    }

    /// One observer: the center keeps it until it is removed.
    private final class Observer: NSObject, @unchecked Sendable {
        // Sound: constants.
        let queue: OperationQueue?
        let block: @Sendable (Notification) -> Void

        init(_ queue: OperationQueue?, _ block: @escaping @Sendable (Notification) -> Void) {
            (self.queue, self.block) = (queue, block)
        }

        func handle(_ name: CFString, _ object: UnsafeRawPointer?, _ userInfo: CFDictionary?) {
            let object = object.map { String(Unmanaged<CFString>.fromOpaque($0).takeUnretainedValue()) }
            nonisolated(unsafe) let notification = Notification(
                name: .init(String(name)), object: object,
                userInfo: userInfo.flatMap(DistributedNotificationCenter.values))
            if let queue { queue.addOperation { self.block(notification) } } else { block(notification) }
        }
    }

    private let observers = Lock<[ObjectIdentifier: Observer]>([:])

    private static let shared = DistributedNotificationCenter()

    private var center: CFNotificationCenter { CFNotificationCenterGetDistributedCenter() }

    /// The centre of all processes of the user.
    open class func `default`() -> DistributedNotificationCenter { shared }

    /// The centre of all processes of the user, which is the only type.
    open class func forType(_ type: CenterType) -> DistributedNotificationCenter { shared }

    // MARK: Observing

    /// Calls a block with each notification of a name and of an object, which is a string. Nil stands for any. While the centre
    /// is suspended, notifications are coalesced.
    /// - Parameters:
    ///   - name: The name.
    ///   - obj: The object, a string.
    ///   - queue: The queue that calls the block; nil for the main thread.
    ///   - block: Called with each notification.
    /// - Returns: The observer, for `removeObserver(_:)`. The centre keeps it.
    open func addObserver(
        forName name: NSNotification.Name?, object obj: Any?, queue: OperationQueue?,
        using block: @Sendable @escaping (Notification) -> Void
    ) -> any NSObjectProtocol {
        addObserver(forName: name, object: obj as? String, suspensionBehavior: .coalesce, queue: queue, using: block)
    }

    /// The same with a choice of what becomes of notifications while the centre is suspended. On macOS, the method that takes a
    /// selector has this choice.
    @discardableResult
    open func addObserver(
        forName name: NSNotification.Name?, object: String?, suspensionBehavior: SuspensionBehavior,
        queue: OperationQueue? = nil, using block: @Sendable @escaping (Notification) -> Void
    ) -> any NSObjectProtocol {
        let observer = Observer(queue, block)
        observers.withLock { $0[ObjectIdentifier(observer)] = observer }
        withObject(object) { object in
            CFNotificationCenterAddObserver(
                center, Unmanaged.passUnretained(observer).toOpaque(),
                { _, observer, name, object, userInfo in
                    guard let observer, let name else { return }
                    Unmanaged<Observer>.fromOpaque(observer).takeUnretainedValue().handle(name, object, userInfo)
                }, name?.rawValue.cfString, object, suspensionBehavior.cfBehavior)
        }
        return observer
    }

    /// Removes an observer.
    open func removeObserver(_ observer: Any) { removeObserver(observer, name: nil, object: nil) }

    /// Removes an observer.
    open func removeObserver(_ observer: Any, name aName: NSNotification.Name?, object: Any?) {
        guard let observer = observer as? Observer else { return }
        withObject(object as? String) { object in
            CFNotificationCenterRemoveObserver(
                center, Unmanaged.passUnretained(observer).toOpaque(), aName?.rawValue.cfString, object)
        }
        // A callback on the main thread may still use it.
        let removed = observers.withLock { $0.removeValue(forKey: ObjectIdentifier(observer)) }
        DispatchQueue.main.async { withExtendedLifetime(removed) {} }
    }

    // MARK: Posting

    /// Posts a notification to all processes of the user, this one included.
    open func postNotificationName(
        _ name: NSNotification.Name, object: String?, userInfo: [AnyHashable: Any]? = nil, deliverImmediately: Bool
    ) {
        let options: Options = deliverImmediately ? .deliverImmediately : []
        postNotificationName(name, object: object, userInfo: userInfo, options: options)
    }

    /// Posts a notification to all processes of the user, this one included. A user info that is no property list is not posted,
    /// and the log says so.
    open func postNotificationName(
        _ name: NSNotification.Name, object: String?, userInfo: [AnyHashable: Any]? = nil, options: Options = []
    ) {
        var values: CFDictionary?
        if let userInfo {
            guard let made = Self.dictionary(userInfo) else {
                return NSLog("%@", "\(name.rawValue) was not posted: its user info is no property list")
            }
            values = made
        }
        withObject(object) { object in
            CFNotificationCenterPostNotificationWithOptions(
                center, name.rawValue.cfString, object, values, CFOptionFlags(options.rawValue))
        }
    }

    /// As ``postNotificationName(_:object:userInfo:options:)``, without options.
    open func post(name aName: NSNotification.Name, object anObject: Any?, userInfo: [AnyHashable: Any]? = nil) {
        postNotificationName(aName, object: anObject as? String, userInfo: userInfo)
    }

    /// As ``postNotificationName(_:object:userInfo:options:)``, without options.
    open func post(_ notification: Notification) {
        postNotificationName(
            notification.name, object: notification.object as? String, userInfo: notification.userInfo)
    }

    /// Whether the centre keeps notifications back.
    open var suspended: Bool {
        get { _CFNotificationCenterIsSuspended(center) }
        set { _CFNotificationCenterSetSuspended(center, newValue) }
    }

    // MARK: Bridging

    private func withObject(_ object: String?, _ body: (UnsafeRawPointer?) -> Void) {
        let text = object?.cfString
        withExtendedLifetime(text) { body(text.map { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) }) }
    }

    // The compiler on Linux knows no bridge between the dictionaries.

    private static func dictionary(_ values: [AnyHashable: Any]) -> CFDictionary? {
        guard PropertyListSerialization.propertyList(values, isValidFor: .binary),
            let data = try? PropertyListSerialization.data(fromPropertyList: values, format: .binary, options: 0),
            let list = CFPropertyListCreateWithData(nil, data.cfData, 0, nil, nil)?.takeRetainedValue()
        else { return nil }
        return Unmanaged<CFDictionary>.fromOpaque(Unmanaged.passUnretained(list).toOpaque()).takeUnretainedValue()
    }

    private static func values(_ dictionary: CFDictionary) -> [AnyHashable: Any]? {
        let data = CFPropertyListCreateData(nil, dictionary, .binaryFormat_v1_0, 0, nil)?.takeRetainedValue()
        let list = data.flatMap {
            try? PropertyListSerialization.propertyList(from: Data($0), options: [], format: nil)
        }
        return list as? [AnyHashable: Any]
    }
}

extension DistributedNotificationCenter.SuspensionBehavior {
    fileprivate var cfBehavior: CFNotificationSuspensionBehavior {
        CFNotificationSuspensionBehavior(rawValue: CFIndex(rawValue)) ?? .coalesce
    }
}
