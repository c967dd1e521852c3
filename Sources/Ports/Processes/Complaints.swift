import Glibc
import RunLoops

/// What was said of peers already: each complaint is logged once per peer, however often there is cause for it.
final class Complaints: Sendable {
    private struct Complaint: Hashable {
        let pid: pid_t
        let text: String
    }

    private let made = Lock<Set<Complaint>>([])

    /// After so many they are forgotten, lest peers that come and go make the set grow.
    private static let most = 1024

    /// Whether it is the first time that this is said of the process.
    func isFirst(_ text: String, about pid: pid_t) -> Bool {
        made.withLock { made in
            if made.count >= Self.most { made.removeAll() }
            return made.insert(Complaint(pid: pid, text: text)).inserted
        }
    }

    func warn(_ text: String, about pid: pid_t, _ message: @autoclosure () -> String) {
        if isFirst(text, about: pid) { log.warning("\(message())") }
    }
}
