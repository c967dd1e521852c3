import Glibc
import Ports
import RunLoops

/// Prints the latest sample, and then so many as they come.
@MainActor
func ask(for count: Int) throws {
    let (daemon, loop) = (try RemoteMessagePort(name: serviceName), ThreadRunLoop.main)
    let latest = try daemon.request(id: MessageID.latest, timeout: .seconds(1))
    print("latest: \(String(decoding: latest ?? [], as: UTF8.self))")

    let name = "com.example.loadd.client.\(getpid())"
    var left = count
    let port = try LocalMessagePort(
        name: name,
        handler: ThreadRunLoop.local { (_: UInt32, sample: [UInt8]?) -> [UInt8]? in
            print("sample: \(String(decoding: sample ?? [], as: UTF8.self))")
            left -= 1
            if left == 0 { loop.stop() }
            return nil
        })
    try port.schedule(in: loop)
    try daemon.send(id: MessageID.subscribe, Array(name.utf8), timeout: .seconds(1))
    try loop.run()
    port.invalidate()
}
