@preconcurrency import CoreFoundation

/// A notification that a program has posted.
struct PostedNotification: @unchecked Sendable {
    // Sound: constants, objects of CoreFoundation that nobody changes, and the program's pointer, which is not followed in
    // the local centre.
    let name: CFString
    /// In the local centre any pointer, in the distributed one a CFString.
    let object: UnsafeRawPointer?
    let userInfo: CFDictionary?
    let isImmediate: Bool
    /// Keeps the object of a notification that has come from another process.
    private let keptObject: CFString?

    init(
        _ name: CFString, _ object: UnsafeRawPointer?, _ userInfo: CFDictionary?, isImmediate: Bool,
        keeping keptObject: CFString? = nil
    ) {
        (self.name, self.object, self.userInfo) = (name, object, userInfo)
        (self.isImmediate, self.keptObject) = (isImmediate, keptObject)
    }

    /// The object as a string; nil when it is none.
    var objectText: String? { Self.text(object) }

    static func text(_ object: UnsafeRawPointer?) -> String? {
        guard let object else { return nil }
        let string = Unmanaged<CFString>.fromOpaque(object).takeUnretainedValue()
        return CFGetTypeID(string) == CFStringGetTypeID() ? String(string) : nil
    }
}

// Between processes: flags, the name, the object, and the user info as a binary property list. Each is preceded by its
// size in 4 bytes; the size of none is the largest number.

extension PostedNotification {
    /// The bytes for other processes; nil when the user info is no property list.
    var bytes: [UInt8]? {
        var made: [UInt8] = [isImmediate ? 1 : 0]
        made.append(part: Array(String(name).utf8))
        made.append(part: objectText.map { Array($0.utf8) })
        guard let userInfo else {
            made.append(part: nil)
            return made
        }
        let data = CFPropertyListCreateData(nil, userInfo, .binaryFormat_v1_0, 0, nil)?.takeRetainedValue()
        guard let data else { return nil }
        made.append(part: [UInt8](data))
        return made
    }

    /// Nil for bytes that no process of this library has sent.
    init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        guard let flags = rest.popFirst(), case .some(let name?) = rest.takePart(),
            case .some(let object) = rest.takePart(),
            case .some(let list) = rest.takePart(), rest.isEmpty
        else { return nil }
        var userInfo: CFDictionary?
        if let list {
            let made = CFPropertyListCreateWithData(nil, Array(list).cfData, 0, nil, nil)?.takeRetainedValue()
            guard let made, CFGetTypeID(made) == CFDictionaryGetTypeID() else { return nil }
            userInfo = Unmanaged<CFDictionary>.fromOpaque(Unmanaged.passUnretained(made).toOpaque())
                .takeUnretainedValue()
        }
        let text = object.map { String(decoding: $0, as: UTF8.self).cfString }
        self.init(
            String(decoding: name, as: UTF8.self).cfString,
            text.map { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) },
            userInfo, isImmediate: flags & 1 != 0, keeping: text)
    }
}

extension [UInt8] {
    fileprivate mutating func append(part: [UInt8]?) {
        let size = part.map { UInt32($0.count) } ?? .max
        append(contentsOf: (0..<4).map { UInt8(truncatingIfNeeded: size >> ($0 * 8)) })
        append(contentsOf: part ?? [])
    }
}

extension ArraySlice<UInt8> {
    /// Nil when the bytes end too early; the inner nil is a part that was none.
    fileprivate mutating func takePart() -> ArraySlice<UInt8>?? {
        guard count >= 4 else { return nil }
        let size = prefix(4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        removeFirst(4)
        if size == .max { return .some(nil) }
        guard count >= Int(size) else { return nil }
        defer { removeFirst(Int(size)) }
        return .some(prefix(Int(size)))
    }
}
