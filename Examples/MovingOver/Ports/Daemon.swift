import Glibc
import Ports
import RunLoops

let serviceName = "com.example.loadd"

enum MessageID {
    static let latest: UInt32 = 1
    static let subscribe: UInt32 = 2
    static let sample: UInt32 = 3
}

/// Samples the load average, answers who asks, and tells who subscribes.
@MainActor
final class Daemon {
    private var samples: [Double] = []
    private var subscribers: [RemoteMessagePort] = []

    func sample() {
        var load = 0.0
        getloadavg(&load, 1)
        samples = (samples + [load]).suffix(60)
        subscribers.removeAll { !$0.isValid }
        for port in subscribers {
            try? port.send(id: MessageID.sample, Array("\(load)".utf8), timeout: .milliseconds(100))
        }
    }

    func answer(_ id: UInt32, _ data: [UInt8]?) -> [UInt8]? {
        switch id {
        case MessageID.latest:
            return samples.last.map { Array("\($0)".utf8) }
        case MessageID.subscribe:
            let name = String(decoding: data ?? [], as: UTF8.self)
            if let port = try? RemoteMessagePort(name: name) { subscribers.append(port) }
            return nil
        default:
            return nil
        }
    }
}

@MainActor
func serve(every interval: Duration) throws {
    let (daemon, loop) = (Daemon(), ThreadRunLoop.main)
    let port = try LocalMessagePort(name: serviceName, handler: ThreadRunLoop.mainActor(daemon.answer))
    try port.schedule(in: loop, forMode: .common)
    daemon.sample()
    loop.addTimer(after: interval, repeats: true) { _ in daemon.sample() }
    try loop.add(.signal(SIGTERM) { _ in ThreadRunLoop.main.stop() })
    try loop.run()
    port.invalidate()
}
