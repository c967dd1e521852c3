import Ports

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

    /// Follows all that each port waits for. A deadlock counts before a root.
    /// - Returns: Nil for a port that waits for no other in trouble.
    init?(from id: String, in troubled: [String: Port]) {
        guard let first = troubled[id] else { return nil }
        var seen: Set = [id]
        var toRoot: [Port]?

        func deadlock(behind path: [Port], _ last: Port) -> (ports: [Port], start: Int)? {
            let next = last.awaited.compactMap { troubled[$0] }
            if next.isEmpty, path.count > 1, toRoot == nil { toRoot = path }
            for port in next {
                if let start = path.firstIndex(where: { $0.id == port.id }) { return (path, start) }
            }
            for port in next where seen.insert(port.id).inserted {
                if let found = deadlock(behind: path + [port], port) { return found }
            }
            return nil
        }

        if let found = deadlock(behind: [first], first) {
            (ports, deadlockStart) = (found.ports, found.start)
        } else if let toRoot {
            (ports, deadlockStart) = (toRoot, nil)
        } else {
            return nil
        }
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
    /// The ports in trouble, by their ids.
    static func troubled(_ looks: [Look]) -> [String: Port] {
        byID(
            looks.filter { $0.trouble != nil }.map { look in
                Port(
                    id: look.registration.port.id.description, name: look.registration.name,
                    state: look.state == "?" ? "silent" : look.state, service: look.service)
            })
    }

    /// The ports in trouble, by their ids.
    static func troubled(_ ports: [PortMap.NamedPort]) -> [String: Port] {
        byID(
            ports.filter { $0.service?.trouble != nil || $0.service == nil }.map { port in
                Port(
                    id: port.id, name: port.names.joined(separator: ", "),
                    state: port.service?.condition.rawValue ?? "silent", service: port.service)
            })
    }

    private static func byID(_ ports: [Port]) -> [String: Port] {
        Dictionary(ports.map { ($0.id, $0) }) { first, _ in first }
    }
}

extension WaitChain.Port {
    /// Of a port that is flooded, what its process waits for may be another port's matter.
    fileprivate init(id: String, name: String, state: String, service: PortService?) {
        let waits = ["stuck", "slow"].contains(state) ? service?.awaited ?? [] : []
        self.init(id: id, name: name.escaped, state: state, awaited: waits.map(\.port))
    }
}
