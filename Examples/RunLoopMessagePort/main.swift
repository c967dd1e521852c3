import CoreFoundationPorts
import Foundation

// A message port of CoreFoundation, as Swift programs for macOS use it. Only the import of CoreFoundationPorts is new.

enum Upper {
    static var name: CFString { "com.example.upper" }

    /// Answers with the text in upper case, and ends the port when there is none.
    static let answer: CFMessagePortCallBack = { port, id, data, info in
        guard let data, CFDataGetLength(data) > 0 else {
            CFMessagePortInvalidate(port)
            return nil
        }
        let bytes = UnsafeBufferPointer(start: CFDataGetBytePtr(data), count: CFDataGetLength(data))
        let text = "\(id): " + String(decoding: bytes, as: UTF8.self).uppercased()
        return Unmanaged.passRetained(CFDataCreate(nil, Array(text.utf8), text.utf8.count))
    }
}

print("A thread serves a CFMessagePort in its CFRunLoop: its callback returns the text in upper case.")
let semaphore = DispatchSemaphore(value: 0)
Thread { [semaphore] in
    var context = CFMessagePortContext()
    let port = CFMessagePortCreateLocal(nil, Upper.name, Upper.answer, &context, nil)
    let source = CFMessagePortCreateRunLoopSource(nil, port, 0)
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, .defaultMode)
    semaphore.signal()
    // Until the port is invalid, which leaves nothing to wait for.
    CFRunLoopRun()
    semaphore.signal()
}.start()
semaphore.wait()

print("The main thread finds the port by its name, and sends three requests. The replies:")
guard let port = CFMessagePortCreateRemote(nil, Upper.name) else { fatalError("nobody has the name") }
for (id, word) in ["one", "two", "three"].enumerated() {
    let data = CFDataCreate(nil, Array(word.utf8), word.utf8.count)
    var reply: Unmanaged<CFData>?
    let result = CFMessagePortSendRequest(port, Int32(id), data, 1, 10, CFRunLoopMode.defaultMode, &reply)
    guard result == kCFMessagePortSuccess, let reply = reply?.takeRetainedValue() else { fatalError("\(result)") }
    let bytes = UnsafeBufferPointer(start: CFDataGetBytePtr(reply), count: CFDataGetLength(reply))
    print("   " + String(decoding: bytes, as: UTF8.self))
}
print("A message without data ends the port, and with it the thread's loop.")
CFMessagePortSendRequest(port, 0, nil, 1, 0, nil, nil)
semaphore.wait()
print("The port is valid: \(CFMessagePortIsValid(port))")
