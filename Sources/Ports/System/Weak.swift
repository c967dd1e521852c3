/// A weak reference for tables. A class, because a dictionary whose values hold weak references directly corrupts them
/// (Swift 6.3, debug).
final class Weak<Object: AnyObject & Sendable>: Sendable {
    weak let object: Object?
    init(_ object: Object) { self.object = object }
}
