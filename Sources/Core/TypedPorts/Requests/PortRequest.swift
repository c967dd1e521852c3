import Ports

/// A request that has a type, which names the type of its reply.
///
///     struct Lookup: PortRequest {
///         typealias Reply = String?
///         var word: String
///     }
public protocol PortRequest: NamedRequest {
    /// The type of the server's answer.
    associatedtype Reply: Codable & Sendable
}

/// A request whose reply is many elements, one after the other.
///
///     struct Words: PortStreamRequest {
///         typealias Element = String
///         var prefix: String
///     }
public protocol PortStreamRequest: NamedRequest {
    /// The type of the elements that the server sends.
    associatedtype Element: Codable & Sendable
}

/// The common part of requests for one reply and of requests for many elements.
public protocol NamedRequest: Codable, Sendable {
    /// An error that a handler may throw for the asker to catch. The default is none. The error travels without ports
    /// and ``MessageBytes``.
    associatedtype Failure: Error & Codable & Sendable = Never

    /// The name by which the server knows the request. The default is the type's name with the types around it, such as
    /// `Dictionary.Lookup`.
    static var requestName: String { get }

    /// The lane in which a server handles the request, unless its `handle` names another. The default is nil.
    /// Then the limits of ``RequestServer/run(atMost:streamsAtMost:whenFull:)`` apply.
    static var lane: RequestLane? { get }
}

extension NamedRequest {
    /// Nil, so that the limits of ``RequestServer/run(atMost:streamsAtMost:whenFull:)`` apply.
    public static var lane: RequestLane? { nil }

    /// The type's name without its module, and without those of its arguments: programs that build the same file in modules
    /// of their own know the request by one name. A type inside a function has only the last part of its name.
    public static var requestName: String {
        let name = String(reflecting: Self.self)
        if name.contains("(unknown context") { return String(describing: Self.self) }
        return name.withoutModules
    }
}

extension String {
    /// The names of types without their modules, and without those of extensions.
    fileprivate var withoutModules: String {
        var (result, path) = ("", "")
        // A part that begins with a dot belongs to the type before.
        func last() -> Substring {
            path.contains(".") && !path.hasPrefix(".") ? path.drop { $0 != "." }.dropFirst() : path[...]
        }
        for character in replacing(/\(extension in [^)]*\):/, with: "") {
            if character.isLetter || character.isNumber || character == "_" || character == "." {
                path.append(character)
            } else {
                result += last() + String(character)
                path = ""
            }
        }
        return result + last()
    }
}

/// A reply without content.
public struct EmptyReply: Codable, Sendable, Hashable {
    /// Makes the reply.
    public init() {}
}
