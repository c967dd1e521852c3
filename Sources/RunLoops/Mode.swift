extension ThreadRunLoop {
    /// The name of a set of items that a loop runs together. The corresponding CF type is `CFRunLoopMode`.
    public struct Mode: Sendable, Hashable, RawRepresentable, ExpressibleByStringLiteral, CustomStringConvertible {
        /// The name itself.
        public let rawValue: String

        /// A mode of this name. The mode comes to be when an item is added under it.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A mode of this name.
        public init(_ name: String) { rawValue = name }

        /// A mode of this name.
        public init(stringLiteral name: String) { rawValue = name }

        /// The name.
        public var description: String { rawValue }

        /// The mode that a loop runs in unless told otherwise. The corresponding CF constant is
        /// `kCFRunLoopDefaultMode`.
        public static let `default` = Mode("default")

        /// What most blocks are for; an array made anew for each would cost as much as the block.
        @usableFromInline static let onlyDefault = [Mode.default]

        /// Not a mode to run in, but a set of them: what is added to it is added to every mode in the set, those that
        /// join later too. The corresponding CF constant is `kCFRunLoopCommonModes`.
        public static let common = Mode("common")
    }
}
