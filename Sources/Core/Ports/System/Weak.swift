/// A weak reference for tables. A class: a dictionary corrupts weak references inside its values (Swift 6.3, debug).
package final class Weak<Object: AnyObject & Sendable>: Sendable {
    package weak let object: Object?
    package init(_ object: Object) { self.object = object }
}
