import Foundation
import FoundationPorts

/// Samples the load average, answers who asks, and tells who subscribes.
final class Daemon {
    private var samples: [Double] = []
    private var subscribers: [CFMessagePort] = []

    func sample() {
        var load = 0.0
        getloadavg(&load, 1)
        samples = (samples + [load]).suffix(60)
        subscribers.removeAll { !CFMessagePortIsValid($0) }
        for port in subscribers {
            CFMessagePortSendRequest(port, MessageID.sample, makeData("\(load)"), 0.1, 0, nil, nil)
        }
    }

    func answer(_ id: Int32, _ data: CFData?) -> CFData? {
        switch id {
        case MessageID.latest:
            return samples.last.flatMap { makeData("\($0)") }
        case MessageID.subscribe:
            let name = CFStringCreateFromExternalRepresentation(nil, data, CFStringBuiltInEncodings.UTF8.rawValue)
            if let port = CFMessagePortCreateRemote(nil, name) { subscribers.append(port) }
            return nil
        default:
            return nil
        }
    }
}

func serve(every interval: TimeInterval) {
    let daemon = Daemon()
    var context = CFMessagePortContext()
    context.info = Unmanaged.passUnretained(daemon).toOpaque()
    let port = CFMessagePortCreateLocal(
        nil, serviceName,
        { _, id, data, info in
            guard let info else { return nil }
            let daemon = Unmanaged<Daemon>.fromOpaque(info).takeUnretainedValue()
            return daemon.answer(id, data).map { Unmanaged.passRetained($0) }
        }, &context, nil)
    guard let port else {
        fputs("loadd: another process has the name\n", stderr)
        exit(1)
    }
    CFRunLoopAddSource(CFRunLoopGetMain(), CFMessagePortCreateRunLoopSource(nil, port, 0), .commonModes)
    daemon.sample()
    let timer = Timer.scheduledTimer(withTimeInterval: interval, repeats: true) { _ in daemon.sample() }

    signal(SIGTERM, SIG_IGN)
    let termination = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .main)
    termination.setEventHandler { CFRunLoopStop(CFRunLoopGetMain()) }
    termination.resume()
    CFRunLoopRun()
    timer.invalidate()
    CFMessagePortInvalidate(port)
}
