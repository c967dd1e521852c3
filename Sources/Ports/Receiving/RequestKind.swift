/// What is known of the requests with an id.
package struct RequestKind: Sendable {
    /// As people know it, such as the name of its type.
    package let name: String
    /// Whether such a request may last as long as anybody likes, as a stream does.
    package let isStream: Bool

    package init(name: String, isStream: Bool) { (self.name, self.isStream) = (name, isStream) }
}
