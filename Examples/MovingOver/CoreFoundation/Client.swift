import Foundation
import FoundationPorts

/// Takes the samples that the daemon tells of.
final class Subscriber {
    var left: Int
    init(_ count: Int) { left = count }

    func take(_ sample: String) {
        print("sample: \(sample)")
        left -= 1
        if left == 0 { CFRunLoopStop(CFRunLoopGetCurrent()) }
    }
}

/// Prints the latest sample, and then so many as they come.
func ask(for count: Int) {
    guard let daemon = CFMessagePortCreateRemote(nil, serviceName) else {
        fputs("loadd: there is no daemon\n", stderr)
        exit(1)
    }
    var reply: Unmanaged<CFData>?
    let status = CFMessagePortSendRequest(
        daemon, MessageID.latest, nil, 1, 1, CFRunLoopMode.defaultMode.rawValue, &reply)
    guard status == kCFMessagePortSuccess else {
        fputs("loadd: the daemon does not answer: \(status)\n", stderr)
        exit(1)
    }
    print("latest: \(text(reply?.takeRetainedValue()))")

    let subscriber = Subscriber(count)
    var context = CFMessagePortContext()
    context.info = Unmanaged.passUnretained(subscriber).toOpaque()
    let name = "com.example.loadd.client.\(getpid())"
    let port = CFMessagePortCreateLocal(
        nil, CFStringCreateWithCString(nil, name, CFStringBuiltInEncodings.UTF8.rawValue),
        { _, _, data, info in
            if let info { Unmanaged<Subscriber>.fromOpaque(info).takeUnretainedValue().take(text(data)) }
            return nil
        }, &context, nil)
    guard let port else { return }
    CFRunLoopAddSource(CFRunLoopGetCurrent(), CFMessagePortCreateRunLoopSource(nil, port, 0), .defaultMode)
    CFMessagePortSendRequest(daemon, MessageID.subscribe, makeData(name), 1, 0, nil, nil)
    CFRunLoopRun()
    CFMessagePortInvalidate(port)
}
