// swift-format-ignore-file

import CoreFoundation
#if canImport(Darwin)
import Darwin
#endif
import DarwinNames
import Foundation
import FoundationPorts
#if canImport(simd)
import simd
#endif

/// Asks an answerer.
public enum Asker {
    private static let portSuffix = ".asker"

    private static func send(_ message: Data?, to name: String, reply: inout Unmanaged<CFData>?) -> Int32 {
        guard let port = CFMessagePortCreateRemote(nil, "\(name)" as CFString) else { return kCFMessagePortIsInvalid }
        return CFMessagePortSendRequest(
            port, SInt32(7), message?.cfData,
            /* send */ 1, /* receive */ 5, CFRunLoopMode.defaultMode.rawValue as CFString, &reply)
    }

    /// The answer as a string, by each way to read it.
    public static func ask(_ words: [String], of name: String) -> [String] {
        var reply: Unmanaged<CFData>?
        guard let question = try? JSONEncoder().encode(Question(words: words)).cfData,
            send(question.data, to: name, reply: &reply) == KERN_SUCCESS,
            let answer: CFData = reply?.takeRetainedValue()
        else { return [] }
        let first = String(data: answer.data, encoding: .utf8)

        _ = send(question.data, to: name, reply: &reply)
        let second = (reply?.takeRetainedValue() as? Data).flatMap { String(data: $0, encoding: .utf8) }

        _ = send(question.data, to: name, reply: &reply)
        let third = reply.map { String(decoding: $0.takeRetainedValue().data, as: UTF8.self) }
        return [first, second, third].compactMap { $0 }
    }

    /// This process.
    public static var pid: Int32 { Foundation.getpid() }
}
