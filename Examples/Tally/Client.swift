import Foundation
import TypedPorts

/// Votes, one time after another. If no daemon is there, or one ends meanwhile, the request waits for the next.
func vote(for choice: String, times: Int) async throws {
    let (daemon, voter) = (RequestClient(serviceName), UUID().uuidString)
    for number in 0..<times {
        let vote = Vote(choice: choice, voter: voter, number: number)
        // Without `mayRepeat`, the end of a daemon that may have taken the request would be an error.
        let count = try await daemon.request(vote, timeout: .seconds(10), mayRepeat: true)
        say("\(choice): \(count)")
    }
}

/// Prints the counts as they change, of each daemon in turn, until the process is ended.
func watch() async throws {
    let daemon = RequestClient(serviceName)
    while true {
        do {
            for try await counts in daemon.stream(Counts(), timeout: .seconds(60)) { say(text(of: counts)) }
        } catch let error as PortError where error.isEndOfServer {
            // The next daemon's stream begins with its counts.
        }
    }
}

func text(of counts: [String: Int]) -> String {
    counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
}

extension PortError {
    /// Whether the server has ended, or was ended, so that another one may come.
    fileprivate var isEndOfServer: Bool {
        switch self {
        case .isInvalid, .becameInvalid, .refused, .unanswered, .connectionLost, .cannotConnect: true
        default: false
        }
    }
}
