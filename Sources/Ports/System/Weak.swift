/// A weak reference for tables. A class: a dictionary corrupts weak references inside its values (Swift 6.3, debug).
final class Weak<Object: AnyObject & Sendable>: Sendable {
    weak let object: Object?
    init(_ object: Object) { self.object = object }
}
