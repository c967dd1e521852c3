import Foundation
import FoundationPorts

let serviceName = "com.example.loadd" as CFString

enum MessageID {
    static let latest: Int32 = 1
    static let subscribe: Int32 = 2
    static let sample: Int32 = 3
}

func makeData(_ text: String) -> CFData? { CFDataCreate(nil, Array(text.utf8), text.utf8.count) }

func text(_ data: CFData?) -> String {
    guard let data, let bytes = CFDataGetBytePtr(data) else { return "" }
    return String(decoding: UnsafeBufferPointer(start: bytes, count: CFDataGetLength(data)), as: UTF8.self)
}
