@preconcurrency import CoreFoundation

/// One call of CFNotificationCenterAddObserver.
struct Observation: @unchecked Sendable {
    // Sound: constants. The pointers are the program's, which has to expect any thread.
    /// Its place among all.
    var number: UInt64 = 0
    let observer: UnsafeRawPointer?
    let callBack: CFNotificationCallback?
    /// Nil for notifications of any name.
    let name: String?
    /// Nil for notifications of any object.
    let object: ObservedObject?
    let behavior: CFNotificationSuspensionBehavior
}

/// The object that an observer asks for: equal by its address, or by its text.
enum ObservedObject: Hashable, @unchecked Sendable {
    // Sound: the address is not followed.
    case address(UnsafeRawPointer)
    case text(String)
}

/// The observers of a centre, in the order of their calls.
struct Observers: Sendable {
    private var byName: [String?: [Observation]] = [:]
    private var next: UInt64 = 0

    var isEmpty: Bool { byName.isEmpty }
    /// The names that somebody observes; nil stands for any name.
    var names: Set<String?> { Set(byName.keys) }

    mutating func add(_ observation: Observation) {
        var added = observation
        added.number = next
        next += 1
        byName[added.name, default: []].append(added)
    }

    /// Removes what an observer has asked for, with this name and this object. Nil stands for all names and all objects.
    mutating func remove(_ pattern: Observation) {
        for key in pattern.name.map({ [$0] }) ?? Array(byName.keys) {
            byName[key]?.removeAll {
                $0.observer == pattern.observer && (pattern.object == nil || $0.object == pattern.object)
            }
            if byName[key]?.isEmpty == true { byName[key] = nil }
        }
    }

    func matching(_ name: String, _ object: ObservedObject?) -> [Observation] {
        let (named, any) = (byName[name] ?? [], byName[nil] ?? [])
        let all = any.isEmpty ? named : (named + any).sorted { $0.number < $1.number }
        return all.filter { $0.object == nil || $0.object == object }
    }

    func contains(_ observation: Observation) -> Bool {
        byName[observation.name]?.contains { $0.number == observation.number } ?? false
    }
}
