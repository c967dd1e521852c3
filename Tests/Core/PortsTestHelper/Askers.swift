import Ports
import TestSupport

/// Requests of ``faultOfAskers(of:_:seed:)``, by their ids.
package enum AskerRequest {
    /// To be answered at once, with the same data.
    package static let prompt: UInt32 = 1
    /// To be answered never: the asker gives up.
    package static let endless: UInt32 = 2
}

/// Asks so many times, fifty requests at a time, of which half are given up, by a cancellation or a timeout.
/// - Returns: What is wrong with the outcomes; nil when nothing is.
package func faultOfAskers(of remote: RemoteMessagePort, _ count: Int, seed: UInt64) async -> String? {
    await withTaskGroup(of: String?.self) { group in
        for ring in 0..<50 {
            group.addTask {
                var random = SplitMix64(seed: seed &+ UInt64(ring))
                for number in 0..<count / 50 {
                    if let fault = await faultOfOne(remote, UInt64(ring * count + number), &random) { return fault }
                }
                return nil
            }
        }
        return await group.reduce(into: nil) { $0 = $0 ?? $1 }
    }
}

private func faultOfOne(_ remote: RemoteMessagePort, _ number: UInt64, _ random: inout SplitMix64) async -> String? {
    let data = withUnsafeBytes(of: number) { Array($0) }
    let pause = Duration.microseconds(Int(random.next() % 5000))
    switch random.next() % 4 {
    case 0:
        do {
            _ = try await remote.request(id: AskerRequest.endless, data, timeout: pause)
            return "answered"
        } catch {
            switch error as? PortError {
            case .receiveTimedOut, .sendTimedOut: return nil
            default: return "timed out with \(error)"
            }
        }
    case 1:
        let asking = Task { try await remote.request(id: AskerRequest.endless, data, timeout: .seconds(1000)) }
        try? await Task.sleep(for: pause)
        asking.cancel()
        switch await asking.result {
        case .failure(is CancellationError): return nil
        case let outcome: return "cancelled with \(outcome)"
        }
    default:
        do {
            let reply = try await remote.request(id: AskerRequest.prompt, data, timeout: .seconds(60))
            return reply == data ? nil : "another reply"
        } catch {
            return "failed with \(error)"
        }
    }
}
