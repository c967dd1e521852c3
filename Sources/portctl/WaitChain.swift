/// The ports from one in trouble to its root, each of which waits for the next.
struct WaitChain {
    /// A port in trouble.
    struct Port {
        let id: String
        let name: String
        /// The condition in a word.
        let state: String
        /// The ids of the ports whose replies its process waits for.
        var awaited: [String] = []
    }

    /// From the port to the root. In a deadlock, each waits for the next, and the last for one before.
    let ports: [Port]
    /// Where the ports of the deadlock begin; nil for none.
    let deadlockStart: Int?

    /// - Returns: Nil for a port that waits for no other in trouble.
    init?(from id: String, in troubled: [String: Port]) {
        guard var last = troubled[id] else { return nil }
        var ports = [last]
        while true {
            let next = last.awaited.compactMap { troubled[$0] }
            if let start = ports.firstIndex(where: { port in next.contains { $0.id == port.id } }) {
                (self.ports, deadlockStart) = (ports, start)
                return
            }
            guard let first = next.first else { break }
            ports.append(first)
            last = first
        }
        if ports.count == 1 { return nil }
        (self.ports, deadlockStart) = (ports, nil)
    }

    var root: Port? { deadlockStart == nil ? ports.last : nil }

    var text: String {
        var waits = zip(ports, ports.dropFirst()).map { "“\($0.name)” waits for “\($1.name)”" }
        if let deadlockStart, let last = ports.last {
            waits.append("“\(last.name)” waits for “\(ports[deadlockStart].name)”")
            return waits.joined(separator: ", ") + ": a deadlock"
        }
        guard let root else { return "" }
        return waits.joined(separator: ", ") + ": the root is “\(root.name)”, which is \(root.state)"
    }

    var remedy: String {
        guard let root else {
            return "have one of them reply later, or ask with a deadline, in place of a wait inside its handler"
        }
        return "look at “\(root.name)” first"
    }
}

extension WaitChain {
    /// The ports in trouble, by their ids. Of one that is flooded, what its process waits for may be another port's matter.
    static func troubled(_ looks: [Look]) -> [String: Port] {
        let ports = looks.filter { $0.trouble != nil }.map { look in
            let waits = ["stuck", "slow"].contains(look.state) ? look.service?.awaited ?? [] : []
            return Port(
                id: look.registration.port.id.description, name: printable(look.registration.name),
                state: look.state == "?" ? "silent" : look.state, awaited: waits.map(\.port))
        }
        return Dictionary(ports.map { ($0.id, $0) }) { first, _ in first }
    }
}
