import Synchronization

// swift-format-ignore: AlwaysUseLowerCamelCase
/// How an object keeps a value that is associated with it.
public enum objc_AssociationPolicy: UInt, Sendable {
    /// The object does not keep the value.
    case OBJC_ASSOCIATION_ASSIGN = 0
    /// The object keeps the value.
    case OBJC_ASSOCIATION_RETAIN_NONATOMIC = 1
    /// The object keeps the value: there is no copying on Linux.
    case OBJC_ASSOCIATION_COPY_NONATOMIC = 3
    /// The object keeps the value.
    case OBJC_ASSOCIATION_RETAIN = 0o1401
    /// The object keeps the value: there is no copying on Linux.
    case OBJC_ASSOCIATION_COPY = 0o1403
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Associates a value with an object, by a key that is an address. Any thread may call this function.
///
/// The value lives as long as the object, and may live longer: it is released when values of other objects are set.
///
/// - Parameters:
///   - object: An object of a class, or of CoreFoundation's.
///   - key: The key. Nobody reads what is there.
///   - value: The value; nil removes the former one.
///   - policy: Whether the value is kept.
public func objc_setAssociatedObject(
    _ object: Any, _ key: UnsafeRawPointer, _ value: Any?, _ policy: objc_AssociationPolicy
) {
    associations.set(object as AnyObject, key, value, isKept: policy != .OBJC_ASSOCIATION_ASSIGN)
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// The value that is associated with an object by a key; nil without one. Any thread may call this function.
public func objc_getAssociatedObject(_ object: Any, _ key: UnsafeRawPointer) -> Any? {
    associations.value(object as AnyObject, key)
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Removes all values that are associated with an object. Any thread may call this function.
public func objc_removeAssociatedObjects(_ object: Any) { associations.removeAll(object as AnyObject) }

private let associations = Associations()

/// The values of all objects. Swift tells nobody of an object's end, so entries of ended objects go later.
private final class Associations: Sendable {
    /// Sound: the lock of ``Associations`` guards them.
    private struct Value: @unchecked Sendable {
        var kept: Any?
        weak var assigned: AnyObject?
    }

    private struct Entry: @unchecked Sendable {
        weak var object: AnyObject?
        var values: [UnsafeRawPointer: Value]
    }

    private struct State: @unchecked Sendable {
        var entries: [ObjectIdentifier: Entry] = [:]
        /// The number of entries with which the next search for ended objects begins.
        var limit = 16
    }

    private let state = Mutex(State())

    func set(_ object: AnyObject, _ key: UnsafeRawPointer, _ value: Any?, isKept: Bool) {
        let new = value.map { value in
            isKept ? Value(kept: value) : Value(assigned: value as AnyObject)
        }
        // Released after the lock, because their deinitializers may come back here.
        let former = state.withLock { state -> sending [Value] in
            var former = Self.removeEnded(&state)
            let id = ObjectIdentifier(object)
            var values = state.entries[id].flatMap { $0.object == nil ? nil : $0.values } ?? [:]
            former += state.entries[id].map { $0.object == nil ? Array($0.values.values) : [] } ?? []
            if let old = values[key] { former.append(old) }
            values[key] = new
            state.entries[id] = values.isEmpty ? nil : Entry(object: object, values: values)
            return former
        }
        withExtendedLifetime(former) {}
    }

    func value(_ object: AnyObject, _ key: UnsafeRawPointer) -> Any? {
        let found = state.withLock { state -> sending Value? in
            guard let entry = state.entries[ObjectIdentifier(object)], entry.object != nil else { return nil }
            return entry.values[key]
        }
        return found?.kept ?? found?.assigned
    }

    func removeAll(_ object: AnyObject) {
        let former = state.withLock { $0.entries.removeValue(forKey: ObjectIdentifier(object)) }
        withExtendedLifetime(former) {}
    }

    /// Removes entries of ended objects when there are many entries, so that each call costs the same on average.
    private static func removeEnded(_ state: inout State) -> [Value] {
        guard state.entries.count >= state.limit else { return [] }
        let ended = state.entries.filter { $0.value.object == nil }
        for id in ended.keys { state.entries[id] = nil }
        state.limit = max(16, 2 * state.entries.count)
        return ended.values.flatMap { $0.values.values }
    }
}
