import Ports
import TypedPorts

/// Values with keys: a message without a `Codable` type. A value, not a reference as on macOS: a copy does not change
/// with the original. The corresponding C functions are those of `xpc_dictionary_t`.
///
///     import XPC
///
///     func describe() -> XPCDictionary {
///         var message = XPCDictionary()
///         message["name"] = "report"
///         message["pages"] = 12
///         message["isFinal"] = true
///         return message
///     }
public struct XPCDictionary: Sendable {
    var values: [String: XPCValue]
    /// The message that the dictionary has come with.
    let origin: XPCReceivedMessage?

    /// Makes an empty dictionary.
    public init() { self.init([:]) }

    init(_ values: [String: XPCValue], origin: XPCReceivedMessage? = nil) {
        (self.values, self.origin) = (values, origin)
    }

    /// Whether there are no values.
    public var isEmpty: Bool { values.isEmpty }

    /// The number of values.
    public var count: Int { values.count }

    /// The keys, in no order.
    public var keys: [String] { Array(values.keys) }

    /// Removes the value of a key.
    public mutating func removeValue(forKey key: String) { values[key] = nil }

    /// Copies the keys and values into another dictionary, whose own values of these keys are replaced.
    public func copy(into destination: inout XPCDictionary) { destination.values.merge(values) { $1 } }

    /// Sends a reply to the sender of this dictionary, and does not wait. Nothing happens when the dictionary has not come
    /// with a message, or its sender expects no reply. The first reply counts.
    public func reply(_ reply: XPCDictionary) { origin?.reply(reply.values) }
}

extension XPCValue {
    var dictionary: XPCDictionary? { if case .dictionary(let value) = self { XPCDictionary(value) } else { nil } }
}

extension XPCDictionary: Hashable {
    /// Whether both have the same keys and values.
    public static func == (left: XPCDictionary, right: XPCDictionary) -> Bool { left.values == right.values }

    /// Hashes the keys and values.
    public func hash(into hasher: inout Hasher) { hasher.combine(values) }
}

extension XPCDictionary: CustomDebugStringConvertible {
    /// The keys and values, in the order of the keys.
    public var debugDescription: String { values.sortedDescription }
}
