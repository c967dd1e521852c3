import Ports
import RunLoops

/// A thread that asks a port three times, prints the answers, and makes the port invalid.
public func startAsking(_ port: LocalMessagePort) throws -> RunLoopThread {
    let thread = try RunLoopThread(name: "asker")
    try thread.loop.perform {
        do {
            let remote = RemoteMessagePort(port.sendRight)
            for word in ["one", "two", "three"] {
                let answer = try remote.request(id: 1, Array(word.utf8))
                print("\(word): \(String(decoding: answer ?? [], as: UTF8.self))")
            }
        } catch {
            print("the asker got no answer: \(error)")
        }
        port.invalidate()
    }
    return thread
}

/// Turns a request's bytes round.
@Sendable public func reversed(_ id: UInt32, _ data: [UInt8]?) -> [UInt8]? { data.map { $0.reversed() } }
