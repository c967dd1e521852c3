/// The name of a set of items that a loop serves together. The corresponding CF type is `CFRunLoopMode`.
public struct RunLoopMode: Sendable, Hashable, RawRepresentable, ExpressibleByStringLiteral, Codable,
    CustomStringConvertible
{
    /// The name itself.
    public let rawValue: String

    /// A mode of this name. A loop makes the mode when an item is added under the name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A mode of this name.
    public init(_ name: String) { rawValue = name }

    /// A mode of this name.
    public init(stringLiteral name: String) { rawValue = name }

    /// The name.
    public var description: String { rawValue }

    /// The mode of a run that names no other. The corresponding CF constant is `kCFRunLoopDefaultMode`.
    public static let `default` = RunLoopMode("default")

    /// The modes of most blocks. A new array for each block would cost as much as the block.
    @usableFromInline static let onlyDefault = [RunLoopMode.default]

    /// A set of modes, in which no loop runs. An item added to the set joins every mode in it, and modes that join the
    /// set later. The corresponding CF constant is `kCFRunLoopCommonModes`.
    public static let common = RunLoopMode("common")
}
