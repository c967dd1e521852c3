// swift-format-ignore-file

import DarwinNames
import Foundation
import FoundationPorts

/// What a client asks for.
public struct Question: Codable {
    /// The words to join.
    public var words: [String]
    /// A question.
    public init(words: [String]) { self.words = words }
}

// A port finds its object by an associated one.
extension CFMessagePort {
    private static var ownerKey: UInt8 = 0

    var owner: Answerer? { objc_getAssociatedObject(self, &CFMessagePort.ownerKey) as? Answerer }

    func setOwner(_ owner: Answerer?) {
        objc_setAssociatedObject(
            self, &CFMessagePort.ownerKey, owner, objc_AssociationPolicy.OBJC_ASSOCIATION_RETAIN_NONATOMIC)
    }
}

/// Joins words.
public final class Answerer {
    private var port: CFMessagePort!
    private var lock = os_unfair_lock_s()
    private var count: Int32 = 0
    /// What has happened.
    public private(set) var log: [String] = []

    /// Opens a port on the thread's loop; nil when the name is taken.
    public init?(name: String) {
        var isOld: DarwinBoolean = false
        guard
            let port = CFMessagePortCreateLocal(
                kCFAllocatorDefault, name.cfString, Self.callback, nil, &isOld), !isOld.boolValue
        else { return nil }
        self.port = port
        port.setOwner(self)
        CFMessagePortSetInvalidationCallBack(port) { port, _ in port?.owner?.note("invalid") }
        CFRunLoopAddSource(CFRunLoopGetCurrent(), CFMessagePortCreateRunLoopSource(nil, port, 0), .commonModes)
        note("open: " + (CFMessagePortGetName(port).string))
    }

    private static let callback: CFMessagePortCallBack = { (port, id, data, _) -> Unmanaged<CFData>? in
        guard let owner = port?.owner, let data = data?.data,
            let question = try? JSONDecoder().decode(Question.self, from: data)
        else { return nil }
        owner.note("question \(id)")
        let answer = question.words.joined(separator: " ")
        return Unmanaged.passRetained(answer.data(using: .utf8)!.cfData)
    }

    private func note(_ line: String) {
        os_unfair_lock_lock(&lock)
        defer { os_unfair_lock_unlock(&lock) }
        log.append(line)
        count += 1
    }

    /// Ends the port.
    public func close() {
        CFMessagePortInvalidate(port)
        port.setOwner(nil)
    }
}
